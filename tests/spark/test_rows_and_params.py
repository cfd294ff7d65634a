"""What needs no cluster: rows of Arrow as estimators take them, Params, what a worker keeps."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mrflearn
from mrflearn.errors import DataError, SettingsError
from support.spark_cluster import WITHOUT_SPARK

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason=WITHOUT_SPARK)

from mrflearn import spark  # noqa: E402
from mrflearn.spark import answers  # noqa: E402
from mrflearn.spark.params import NOT_PARAMS  # noqa: E402

LEARNERS = [
    "CRF",
    "CompositeLanguageModel",
    "HMMTagger",
    "LanguageModel",
    "MarkovField",
    "NgramLanguageModel",
    "WordVectors",
]
WORDS = pa.list_(pa.string())


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (["a  b\tc", None, ""], pa.string(), [["a", "b", "c"], None, []]),
        ([["a", "b"], None, []], WORDS, [["a", "b"], None, []]),
        ([["a"]], pa.large_list(pa.large_string()), [["a"]]),
        ([[["a"], ["b", "c"]], [[]]], pa.list_(WORDS), [[["a"], ["b", "c"]], [[]]]),
        (
            [[{"word": "a", "pos": "D"}, {"word": "b", "pos": "N"}]],
            pa.list_(pa.struct([("word", pa.string()), ("pos", pa.string())])),
            [[("a", "D"), ("b", "N")]],
        ),
        (
            [[[("x", 1.0), ("y", 0.5)], []]],
            pa.list_(pa.map_(pa.string(), pa.float64())),
            [[{"x": 1.0, "y": 0.5}, {}]],
        ),
    ],
)
def test_rows_are_what_estimators_take(given: Any, kind: Any, expected: Any) -> None:
    column = pa.array([given[0], *given], kind)
    for offset in (0, 1):  # Spark may hand over a slice
        wanted = expected if offset else [expected[0], *expected]
        assert answers.rows_of(column.slice(offset), "words") == wanted


@pytest.mark.parametrize("given", [[["a", None]], [[["a"], None]]])
def test_a_null_inside_a_row_is_refused_by_the_name_of_its_column(given: Any) -> None:
    with pytest.raises(DataError, match="'words'"):
        answers.rows_of(pa.array(given), "words")


def test_examples_are_complete() -> None:
    table = pa.table({"words": [["a"], ["b", "c"]], "tags": [["X"], ["Y", "Z"]], "w": [1.0, 2.0]})
    assert answers.examples(table) == [(["a"], ["X"], 1.0), (["b", "c"], ["Y", "Z"], 2.0)]
    with pytest.raises(DataError, match="null in one of words, tags"):
        answers.examples(pa.table({"words": [["a"]], "tags": [None]}))


@pytest.mark.parametrize("name", LEARNERS)
def test_params_are_the_arguments_of_the_estimator(name: str) -> None:
    learner, own = getattr(spark, name)(), getattr(mrflearn, name)
    for argument, found in inspect.signature(own).parameters.items():
        if argument not in NOT_PARAMS:
            assert learner.getOrDefault(argument) == found.default
            assert len(learner.getParam(argument).doc) > 10
    assert vars(learner._estimator()) == vars(own())
    columns = [param.name for param in learner.params if param.name not in learner.arguments]
    assert set(columns) >= {param.name for param in learner.makes().params}
    for column in columns:
        title = column[0].upper() + column[1:]
        value = ["x"] if column.endswith("Cols") else "x"
        assert getattr(getattr(learner, f"set{title}")(value), f"get{title}")() == value
        assert column in type(learner).__doc__ or column in type(learner.makes()).__doc__


def test_params_are_set_by_keywords_and_copied() -> None:
    crf = spark.CRF(c2=0.5, labelCol="tags").setParams(order=2)
    copied = crf.copy({crf.c2: 2.0})
    assert (copied._estimator().c2, copied._estimator().order, copied.getLabelCol()) == (
        2.0,
        2,
        "tags",
    )
    assert crf.getOrDefault("c2") == 0.5
    assert "all weights" not in crf.explainParam("c2")
    with pytest.raises(SettingsError, match=r"no Param 'c3'.*c2"):
        spark.CRF(c3=1)


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(SettingsError, match="TaggerModel cannot work with a WordVectors"):
        spark.TaggerModel(mrflearn.WordVectors())


def test_a_worker_unpickles_a_model_once() -> None:
    sent = answers.Sent.of(mrflearn.WordVectors(dims=7), pickle.dumps)
    first = answers.received(sent)
    assert answers.received(answers.Sent(*sent)) is first
    for dims in range(answers.KEPT):
        answers.received(answers.Sent.of(mrflearn.WordVectors(dims=dims), pickle.dumps))
    assert answers.received(sent) is not first  # it made room for others


def test_scores_of_documents_add_up() -> None:
    text = [["a", "b"], ["b", "a", "a"]]
    model = mrflearn.NgramLanguageModel(order=2).fit(text)
    one, other = model.score_samples(text)
    rows = [[["a", "b"], ["b", "a", "a"]], ["a", "b"], [], [[]]]
    assert answers.text_scores(model, rows) == [pytest.approx(one + other), one, None, None]
    assert other != one


def test_texts_are_read_as_the_model_reads_files(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("The cat sat.\nA dog!\n")
    model = mrflearn.NgramLanguageModel(order=2, tokenize=True).fit(tmp_path / "raw.txt")
    batch = pa.RecordBatch.from_pydict({"text": ["THE cat sat.", None, "a Dog!"]})
    ask = answers.SequenceAnswers("text", ((answers.text_scores, "double"),))
    first, second = model.score_samples(tmp_path / "raw.txt").tolist()
    assert ask(model, batch)[0].to_pylist() == [first, None, second]


def test_vectors_are_means_over_known_words() -> None:
    model = mrflearn.WordVectors(dims=2, context=2).fit([["a", "b", "c"], ["b", "a", "c"]] * 3)
    own = [model.vectors_[model.vocabulary_.encode([word])[0]] for word in "ab"]
    found = answers.mean_vectors(model, [["a", "b", "never seen"], ["never seen"], []])
    np.testing.assert_allclose(found[0], np.mean(own, axis=0), rtol=1e-6)
    assert found[1:] == [None, None]


WITHOUT = """
import sys
sys.modules["pyspark"] = None
from mrflearn import spark
from mrflearn.errors import MissingExtraError
for name in ("CRF", "TaggerModel", "TaggingEvaluator"):
    try:
        getattr(spark, name)
    except MissingExtraError as missing:
        print(missing)
"""


def test_without_pyspark_the_extra_is_named() -> None:
    found = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert found.stdout.count("mrflearn[spark]") == 3, found.stderr
