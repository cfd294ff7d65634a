"""Features made by the model itself: trained in Python, saved, and used from the command line."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from sklearn.base import clone

import mrflearn
from mrflearn import CRF, FactorialCRF, GraphCRF, SkipChainCRF, word_features
from mrflearn.describe import tasks_of
from mrflearn.errors import DataError, SettingsError
from mrflearn.features.features import compile_features
from mrflearn.features.recipes import Recipe
from mrflearn.models.storage import read_model, write_model
from support import own_features
from support.command import run

WORDS = [["the", "cat", "sat"], ["Ana", "saw", "Lima"], ["the", "dog", "saw", "Ana"]] * 4
TAGS = [["D", "N", "V"], ["P", "V", "P"], ["D", "N", "V", "P"]] * 4
ROWS = [list(zip(w, t, strict=True)) for w, t in zip(WORDS, TAGS, strict=True)]
CHUNKS = [["O" if tag == "V" else "B-NP" for tag in tags] for tags in TAGS]
TEMPLATE = "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nB\n"
OF_WORDS: dict[str, Any] = {
    "words": "words",
    "template": TEMPLATE,
    "function": own_features.of_words,
    "name": "support.own_features:of_words",
}


@pytest.mark.parametrize("features", OF_WORDS.values(), ids=OF_WORDS)
def test_a_model_trained_in_python_labels_files(features: Any, tmp_path: Path) -> None:
    crf = CRF(features=features, c2=0.01).fit(WORDS, TAGS)
    assert crf.score(WORDS, TAGS) == 1.0
    crf.save(tmp_path / "model")
    (tmp_path / "new.text").write_text("the dog sat\n")
    (tmp_path / "truth.txt").write_text("the D\ndog N\nsat V\n\nAna P\n")
    model = str(tmp_path / "model")
    found = run("tag", model, str(tmp_path / "new.text"), "--format", "text")
    assert found.out == "the D\ndog N\nsat V\n\n", found.err
    rated = run("evaluate", model, str(tmp_path / "truth.txt"), "--json").json()
    assert rated["accuracy"] == 1.0
    assert rated["tokens"] == 4
    (task,) = tasks_of(mrflearn.load(model))  # what `serve` asks
    assert task("the dog sat")
    loaded = CRF.load(model)
    assert loaded.predict(WORDS).tolist() == crf.predict(WORDS).tolist()
    assert clone(loaded).fit(WORDS, TAGS).score(WORDS, TAGS) == 1.0
    assert pickle.loads(pickle.dumps(loaded)).score(WORDS, TAGS) == 1.0
    loaded.save(tmp_path / "again")
    assert CRF.load(tmp_path / "again").recipe_ == loaded.recipe_


def test_rows_of_cells_are_columns_of_files(tmp_path: Path) -> None:
    crf = CRF(features=own_features.of_rows, c2=0.01).fit(ROWS, CHUNKS)
    assert crf.recipe_.columns == ("word", "column2", "label")
    crf.save(tmp_path / "model")
    (tmp_path / "rows.txt").write_text("the D B-NP\nsat V O\n")
    model, file = str(tmp_path / "model"), str(tmp_path / "rows.txt")
    assert run("tag", model, file).out == "the D B-NP B-NP\nsat V O O\n\n"
    assert run("evaluate", model, file, "--json").json()["accuracy"] == 1.0
    with pytest.raises(DataError, match="list of words"):
        CRF(features="words").fit(["the cat"], [["D", "N"]])
    with pytest.raises(DataError, match="1 cells; the model looks at word, column2"):
        CRF(features="words").fit(ROWS, CHUNKS).predict(WORDS)


def test_every_question_takes_raw_sentences() -> None:
    crf, plain = CRF(features="words").fit(WORDS, TAGS), CRF().fit(map(word_features, WORDS), TAGS)
    items = [word_features(own) for own in WORDS]
    assert crf.state_features_ == plain.state_features_
    assert crf.predict_marginals_single(WORDS[0]) == plain.predict_marginals_single(items[0])
    assert crf.n_best(WORDS[:2]) == plain.n_best(items[:2])
    assert crf.log_prob(WORDS, TAGS) == plain.log_prob(items, TAGS)
    assert crf.explain(WORDS[0], 1) == plain.explain(items[0], 1)
    assert crf.sample(WORDS[:2], 3) == plain.sample(items[:2], 3)
    assert crf.tagger_.tag(WORDS[0]) == plain.tagger_.tag(items[0])
    assert crf.calibrate(WORDS, TAGS).temperature_ == plain.calibrate(items, TAGS).temperature_
    assert crf.fit(WORDS, TAGS, validation=(WORDS, TAGS)).outcome_.history[-1].validation == 1.0
    assert crf.partial_fit(WORDS[:2], TAGS[:2]).score(WORDS, TAGS) == 1.0
    again = clone(crf).fit(compile_features([word_features(own) for own in WORDS]), TAGS)
    assert again.predict(WORDS).tolist() == plain.predict(items).tolist()
    assert not hasattr(crf.set_params(features=None).fit(items, TAGS), "recipe_")


def test_layers_and_skip_edges(tmp_path: Path) -> None:
    pairs = [list(own) for own in zip(TAGS, CHUNKS, strict=True)]
    factorial = FactorialCRF(features="words", c2=0.01).fit(WORDS, pairs)
    assert factorial.score(WORDS, pairs) == 1.0
    factorial.save(tmp_path / "layers")
    (tmp_path / "new.txt").write_text("the D B-NP\ndog N B-NP\n")
    found = run("evaluate", str(tmp_path / "layers"), str(tmp_path / "new.txt"), "--json").json()
    assert found["layers"].keys() == {"layer1", "layer2"}
    skip = SkipChainCRF(features=own_features.of_words, c2=0.01).fit(WORDS, TAGS)
    assert skip.score(WORDS, TAGS) == 1.0
    skip.save(tmp_path / "skip")
    (tmp_path / "new.txt").write_text("the\ndog\n")
    assert run("tag", str(tmp_path / "skip"), str(tmp_path / "new.txt")).out == "the D\ndog N\n\n"


def test_graphs_get_their_features(tmp_path: Path) -> None:
    def bare() -> Any:
        return nx.star_graph(3)

    crf = GraphCRF("ml", features=own_features.of_graph, c2=0.01)
    crf.fit([bare()] * 3, [{0: "hub", 1: "leaf", 2: "leaf", 3: "leaf"}] * 3)
    assert crf.predict([bare()]) == [{0: "hub", 1: "leaf", 2: "leaf", 3: "leaf"}]
    crf.save(tmp_path / "model")
    nodes = [{"id": str(k)} for k in range(4)]
    edges = [{"source": "0", "target": str(k)} for k in (1, 2, 3)]
    (tmp_path / "graph.jsonl").write_text(json.dumps({"nodes": nodes, "edges": edges}))
    found = run("tag", str(tmp_path / "model"), str(tmp_path / "graph.jsonl"))
    assert found.out == "0\thub\n1\tleaf\n2\tleaf\n3\tleaf\n\n", found.err
    with pytest.raises(SettingsError, match="made by a function"):
        GraphCRF(features="words").fit([bare()], [["hub", "leaf", "leaf", "leaf"]])


def test_the_command_line_trains_the_same(tmp_path: Path) -> None:
    text = "\n\n".join(
        "\n".join(map(" ".join, zip(*own, strict=True))) for own in zip(WORDS, TAGS, strict=True)
    )
    (tmp_path / "train.txt").write_text(text)
    file, model = str(tmp_path / "train.txt"), str(tmp_path / "model")
    name = "support.own_features:of_words"
    found = run("train", "crf", file, "-o", model, "-q", "--features", name)
    assert found.code == 0, found.err
    loaded = CRF.load(model)
    assert loaded.features.function == name
    here = CRF(features=name).fit(WORDS, TAGS)
    assert loaded.state_features_ == pytest.approx(here.state_features_, abs=1e-4)
    (tmp_path / "template").write_text(TEMPLATE)
    both = ["--features", name, "--template", str(tmp_path / "template")]
    assert "not both" in run("train", "crf", file, "-o", model + "2", *both).err


def test_a_function_without_a_name_is_not_stored(tmp_path: Path) -> None:
    crf = CRF(features=lambda words: [[word] for word in words]).fit(WORDS, TAGS)
    assert crf.predict(WORDS).shape == (len(WORDS),)
    with pytest.raises(SettingsError, match=r"set_params\(features="):
        crf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    crf.set_params(features="support.own_features:of_words").save(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_module:of_words", "PYTHONPATH"),
        ("support.own_features:of_letters", "of_letters"),
        ("support.own_features:NO_FUNCTION", "name a function"),
        ("support.own_features:Sequence", "name a function"),
        ("subprocess:call", "subprocess"),  # a model file may come from anybody
        ("torch.utils.cpp_extension:load", "cpp_extension"),
    ],
)
def test_a_function_that_is_gone_is_missed(name: str, told: str, tmp_path: Path) -> None:
    CRF(features=own_features.of_words).fit(WORDS, TAGS).save(tmp_path / "model")
    stored = read_model(tmp_path / "model")
    stored.learned["recipe"]["function"] = name
    write_model(tmp_path / "model", stored, overwrite=True)
    loaded = CRF.load(tmp_path / "model")
    assert loaded.top_features(n=1)  # what was learned needs no features
    with pytest.raises(SettingsError, match=told):
        loaded.predict(WORDS)
    (tmp_path / "new.txt").write_text("the\n")
    found = run("tag", str(tmp_path / "model"), str(tmp_path / "new.txt"))
    assert found.code == 1
    assert told in found.err


def test_sentences_of_other_things_stand_in_no_file(tmp_path: Path) -> None:
    tokens = [[{"text": word} for word in own] for own in WORDS]
    crf = CRF(features="support.own_features:of_dicts").set_params(
        features=Recipe(function=lambda own: [[token["text"]] for token in own])
    )
    assert crf.fit(tokens, TAGS).score(tokens, TAGS) == 1.0
    assert not crf.recipe_.columns
    (tmp_path / "new.txt").write_text("the\n")
    with pytest.raises(mrflearn.errors.StorageError, match="does not know"):
        tasks_of(crf)
