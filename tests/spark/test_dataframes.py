"""Estimators and models of DataFrames on a real cluster; the page about them is a test itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mrflearn
from mrflearn.datasets import sample_documents
from mrflearn.errors import SettingsError, StorageError
from mrflearn.execution.spark import Spark
from support.spark_cluster import why_not

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    # py4j leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PAGE = Path(__file__).parents[2] / "docs" / "start" / "spark-dataframes.md"
SENTENCES = [s for document in sample_documents(4, seed=3) for s in document.sentences]
X = [list(s.words) for s in SENTENCES]
Y = [list(s.chunks) for s in SENTENCES]

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from mrflearn.cli.main import main
sys.argv = ["mrflearn", "tag", "--format", "text", sys.argv[1], sys.argv[2]]
main()
"""


@pytest.fixture(scope="module")
def sentences(spark: Spark) -> Any:
    rows = [(n, x, y) for n, (x, y) in enumerate(zip(X, Y, strict=True))]
    frame = spark.session.createDataFrame(rows, "n int, words array<string>, labels array<string>")
    return frame.repartition(2).persist()


@pytest.fixture(scope="module")
def crf() -> mrflearn.CRF:
    return mrflearn.CRF(features="words", c2=0.1, max_iterations=10).fit(X, Y)


def by_number(frame: Any, *names: str) -> list[list[Any]]:
    """Columns, in the order of the sentences."""
    rows = sorted(frame.select("n", *names).collect())
    return [[row[name] for row in rows] for name in names]


def test_the_page_runs_and_its_model_answers_without_spark(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.session is not None  # the one that getOrCreate finds
    text, names = PAGE.read_text(encoding="utf-8"), {}
    for block in re.findall(r"^```py(?:thon)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["f1"] > 0.8
    tagged = names["tagged"].orderBy("words").collect()
    file, chunker = tmp_path / "new.txt", f"{names['folder']}/chunker"
    file.write_text("".join(" ".join(row.words) + "\n" for row in tagged))
    here = mrflearn.load(chunker)
    assert [list(own) for own in here.predict([row.words for row in tagged])] == [
        row.prediction for row in tagged
    ]
    command = [sys.executable, "-c", WITHOUT_SPARK, chunker, str(file)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    labels = [line.split()[-1] for line in found.stdout.splitlines() if line.strip()]
    assert labels == [label for row in tagged for label in row.prediction]


def test_a_crf_learned_from_a_dataframe_is_that_learned_from_lists(
    sentences: Any, crf: mrflearn.CRF
) -> None:
    from mrflearn.spark import CRF

    settings = {"features": "words", "c2": 0.1, "max_iterations": 10}
    found = CRF(dtype="float64", **settings).fit(sentences).fitted
    local = mrflearn.CRF(dtype="float64", **settings).fit(X, Y)
    assert found.outcome_.iterations == local.outcome_.iterations
    weights = local.state_features_
    largest = max(map(abs, weights.values()))
    assert found.state_features_.keys() == weights.keys()
    for name, value in weights.items():
        assert found.state_features_[name] == pytest.approx(value, rel=1e-6, abs=1e-6 * largest)


@pytest.mark.parametrize("place", ["spark", "connected"])
def test_answers_are_those_of_the_model_itself(
    place: str, request: pytest.FixtureRequest, crf: mrflearn.CRF
) -> None:
    from mrflearn.spark import TaggerModel

    session = request.getfixturevalue(place).session
    rows = [*enumerate(X[:20]), (20, []), (21, None)]
    frame = session.createDataFrame(rows, "n int, words array<string>")
    model = TaggerModel(crf, marginalsCol="marginals", scoreCol="score")
    labels, marginals, scores = by_number(
        model.transform(frame), "prediction", "marginals", "score"
    )
    expected = [list(own) for own in crf.predict(X[:20])]
    assert labels == [*expected, [], None]
    np.testing.assert_allclose(scores[:20], crf.log_prob(X[:20], expected), rtol=1e-5, atol=1e-6)
    assert scores[20:] == [0.0, None]
    assert marginals[20:] == [[], None]
    for found, wanted in zip(marginals, crf.predict_marginals(X[:20]), strict=False):
        assert found == [pytest.approx(own, rel=1e-5, abs=1e-7) for own in wanted]


def test_models_are_ordinary_model_directories(
    spark: Spark, crf: mrflearn.CRF, tmp_path: Path
) -> None:
    from pyspark.ml import PipelineModel

    from mrflearn.spark import TaggerModel

    path = tmp_path / "chunker"
    crf.save(path)
    model = TaggerModel.load(str(path)).setPredictionCol("chunks")
    with pytest.raises(StorageError, match="already"):
        model.save(str(path))
    for place in (str(path), f"file://{path}", "memory://models/chunker"):
        model.write().overwrite().save(place)
        again = TaggerModel.read().load(place)
        assert (again.uid, again.getPredictionCol()) == (model.uid, "chunks")
        assert mrflearn.load(place).state_features_ == crf.state_features_
    pipeline = PipelineModel([model])
    pipeline.write().save(str(tmp_path / "pipeline"))
    (again,) = PipelineModel.load(str(tmp_path / "pipeline")).stages
    assert again.fitted.state_features_ == crf.state_features_
    assert again.uid == model.uid


def test_what_columns_cannot_be_is_said_at_once(spark: Spark, crf: mrflearn.CRF) -> None:
    from mrflearn.spark import TaggerModel

    frame = spark.session.createDataFrame([(["a"], "x")], "words array<string>, prediction string")
    with pytest.raises(SettingsError, match="column 'prediction' already"):
        TaggerModel(crf).transform(frame)
    with pytest.raises(SettingsError, match="no column 'text'; there are words, prediction"):
        TaggerModel(crf, inputCol="text").transform(frame)


def test_other_estimators_learn_what_they_learn_from_lists(spark: Spark, sentences: Any) -> None:
    from mrflearn.spark import HMMTagger, NgramLanguageModel, TaggingEvaluator, WordVectors

    tagged = HMMTagger().fit(sentences).transform(sentences)
    local = mrflearn.HMMTagger().fit(X, Y)
    assert by_number(tagged, "prediction") == [local.predict(X)]
    evaluator = TaggingEvaluator(metricName="accuracy")
    assert evaluator.evaluate(tagged) == pytest.approx(local.score(X, Y))
    scored = NgramLanguageModel(order=2).fit(sentences).transform(sentences)
    scores = mrflearn.NgramLanguageModel(order=2).fit(X).score_samples(X)
    np.testing.assert_allclose(by_number(scored, "score")[0], scores, rtol=1e-9)
    vectors = WordVectors(dims=3, context=2).fit(sentences).fitted
    wanted = mrflearn.WordVectors(dims=3, context=2).fit(X)
    assert set(vectors.vocabulary_.words) == set(wanted.vocabulary_.words)
    word = X[0][0]
    assert vectors.neighbors(word, 1)[0][1] == pytest.approx(wanted.neighbors(word, 1)[0][1])


def test_a_field_fills_in_what_rows_lack(spark: Spark) -> None:
    from mrflearn.spark import MarkovField

    first = np.random.default_rng(0).integers(0, 2, 200)
    table = np.stack([first, first, 1 - first], axis=1)
    table[::10, 2] = first[::10]
    frame = spark.session.createDataFrame(table.tolist(), "a int, b int, c int")
    model = MarkovField(graph="chain:3", estimator="ml", l2=0.1, outputCols=["x", "y", "z"])
    fitted = model.fit(frame)
    local = mrflearn.MarkovField("chain:3", estimator="ml", l2=0.1).fit(table)
    np.testing.assert_allclose(fitted.fitted.couplings_, local.couplings_, rtol=1e-5)
    gaps = spark.session.createDataFrame([(0, None, None), (1, 1, None)], frame.schema)
    assert [tuple(row[3:]) for row in fitted.transform(gaps).collect()] == [(0, 0, 1), (1, 1, 0)]
