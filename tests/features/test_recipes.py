"""Files become items as the recipe says, and the recipe survives being stored."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mrflearn.errors import DataError, StorageError
from mrflearn.features.recipes import Recipe, word_features
from mrflearn.models.storage import record

COLUMNS = "The DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\nDogs NNS B-NP\n"
CONLLU = "1\tDogs\tdog\tNOUN\tNNS\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(COLUMNS)
    return path


def test_columns_are_named_by_their_place_unless_named(file: Path) -> None:
    assert Recipe.of(file) == Recipe("columns", ("word", "column2", "label"), "label")
    named = Recipe.of(file, columns=("word", "pos", "chunk"))
    (items,) = named([("Dogs", "NNS")])
    assert {"w[0]=Dogs", "pos[0]=NNS", "pos[-1]=<start>"} <= set(items)
    named = Recipe.of(file, columns=["w", "pos", "np"], labels="pos")
    assert named.seen == ("w", "np")


def test_items_are_word_features_of_all_other_columns(file: Path) -> None:
    recipe = Recipe.of(file)
    first, second = recipe.read(file)
    assert first.tokens == [("The", "DT"), ("cat", "NN"), ("sat", "VBD")]
    assert recipe(first.tokens) == word_features(first.tokens)
    assert first.labels == ("B-NP", "I-NP", "B-VP")
    assert first.rows[1] == ("cat", "NN", "I-NP")
    assert second.labels == ("B-NP",)


def test_a_file_without_labels_has_the_same_items(file: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.txt"
    bare.write_text("-DOCSTART- -X-\n\nThe DT\ncat NN\nsat VBD\n\nDogs NNS\n")
    recipe = Recipe.of(file)
    found = list(recipe.read(bare))
    assert [example.tokens for example in found] == [e.tokens for e in recipe.read(file)]
    assert [example.labels for example in found] == [None, None]
    assert [example.document for example in found] == [1, 1]


def test_templates_read_the_columns_without_the_labels(file: Path, tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.write_text("# words\nU00:%x[0,0]\n\nU01:%x[-1,1]/%x[0,1]\nB\n")
    recipe = Recipe.of(file, columns=["word", "pos", "chunk"], template=template)
    first = next(recipe.read(file))
    assert recipe(first.tokens)[1] == ["U00:cat", "U01:DT/NN"]
    template.write_text("U00:%x[0,2]\n")
    with pytest.raises(DataError, match=r"reads column 2.*there are 2: word, pos"):
        Recipe.of(file, columns=["word", "pos", "chunk"], template=template)


def test_a_stored_recipe_is_the_same(file: Path, tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.write_text("U00:%x[0,0]\n")
    for recipe in (Recipe.of(file), Recipe.of(file, template=template)):
        text = json.dumps(asdict(recipe))
        assert record(Recipe, json.loads(text)) == recipe
    with pytest.raises(StorageError, match="columns"):
        record(Recipe, {"format": "columns", "columns": [1]})


def test_other_formats(tmp_path: Path) -> None:
    tree, attributes, text = tmp_path / "a.conllu", tmp_path / "a.crfsuite", tmp_path / "a.words"
    tree.write_text(CONLLU)
    recipe = Recipe.of(tree, labels="xpos", columns=["word", "upos", "xpos"])
    (example,) = recipe.read(tree)
    assert example.labels == ("NNS",)
    assert example.tokens == [("Dogs", "NOUN")]
    attributes.write_text("NN\tw=dog:0.5\tbias\n\n")
    (example,) = Recipe.of(attributes).read(attributes)
    assert Recipe.of(attributes)(example.tokens) == example.tokens == [{"w=dog": 0.5, "bias": 1.0}]
    assert example.labels == ("NN",)
    text.write_text("Dogs bark\n\nCats sleep\n")
    words = Recipe("columns", ("word", "tag"), "tag")
    assert [len(e.tokens) for e in words.read(text, format="text")] == [2, 2]


@pytest.mark.parametrize(("labels", "found"), [(None, "NOUN"), ("upos", "NOUN"), ("xpos", "NNS")])
def test_conllu_is_learned_from_its_words(tmp_path: Path, labels: str | None, found: str) -> None:
    tree = tmp_path / "a.conllu"
    tree.write_text(CONLLU)
    recipe = Recipe.of(tree, labels=labels)
    (example,) = recipe.read(tree)
    assert example.labels == (found,)
    assert recipe(example.tokens) == word_features([("Dogs",)])
    assert Recipe.of(tree, columns=["word", "upos", "xpos"]).labels == "upos"


def test_labelled_items_fill_the_list_of_labels(file: Path, tmp_path: Path) -> None:
    items, labels = Recipe.of(file).labelled(file)
    assert [len(own) for own in items] == [3, 1]
    assert labels == [("B-NP", "I-NP", "B-VP"), ("B-NP",)]
    bare = tmp_path / "bare.txt"
    bare.write_text("Dogs NNS\n")
    items, _ = Recipe.of(file).labelled(bare)
    with pytest.raises(DataError, match=r"bare.txt: labels are missing: .* label"):
        list(items)


def test_complaints(file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"no column .x.; there are word, column2, label; columns=\.\.\. names"
    ):
        Recipe.of(file, labels="x")
    with pytest.raises(DataError, match="standard input can be read once"):
        Recipe.of("-")
    single = tmp_path / "single.txt"
    single.write_text("word\n")
    with pytest.raises(DataError, match="needs a word and a label"):
        Recipe.of(single)
    with pytest.raises(DataError, match="no columns, no template"):
        Recipe.of(tmp_path / "a.crfsuite", columns=["word", "tag"])
    network = tmp_path / "a.uai"
    network.write_text("MARKOV 0 0")
    with pytest.raises(DataError, match="has no labels for words"):
        Recipe.of(network)
    (tmp_path / "a.crfsuite").write_text("NN\tw=dog\n\n")
    with pytest.raises(DataError, match="trained on columns"):
        list(Recipe.of(file).read(tmp_path / "a.crfsuite"))
    with pytest.raises(DataError, match="text has words alone"):
        list(Recipe.of(file).read(file, format="text"))
    with pytest.raises(DataError, match=r"train.txt:1: 3 cells where"):
        list(Recipe("columns", ("word", "label"), "label").read(file))
    expected = r"3 cells where the columns w, a, b, c, d want 5 \(4 without d\)"
    with pytest.raises(DataError, match=expected):
        list(Recipe("columns", ("w", "a", "b", "c", "d"), "d").read(file))
    ragged = tmp_path / "ragged.txt"
    ragged.write_text("dog NN\nruns VB X\n")
    expected = r"ragged.txt:2: 3 cells where the columns a, b want 2 \(line 1 has no c\)"
    with pytest.raises(DataError, match=expected):
        list(Recipe("columns", ("a", "b", "c"), "c").read(ragged))


def test_several_columns_of_labels_are_layers(file: Path, tmp_path: Path) -> None:
    recipe = Recipe.of(file, columns=["word", "pos", "chunk"], labels=["pos", "chunk"])
    assert recipe.seen == ("word",)
    assert recipe.layers == ("pos", "chunk")
    first, second = recipe.layered(file)
    assert first.layers == (("DT", "NN", "VBD"), ("B-NP", "I-NP", "B-VP"))
    assert second.tokens == ["Dogs"]
    assert record(Recipe, json.loads(json.dumps(asdict(recipe)))) == recipe
    bare = tmp_path / "bare.txt"
    bare.write_text("Dogs\n")
    assert [example.layers for example in recipe.read(bare)] == [None]
    with pytest.raises(DataError, match=r"labels are missing: .* pos, chunk"):
        list(recipe.layered(bare))
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="no sentences"):
        list(recipe.layered(tmp_path / "empty.txt"))


@pytest.mark.parametrize("labels", [["pos", "pos"], ["word", "pos", "chunk"]])
def test_layers_are_named_once_and_leave_something_to_see(file: Path, labels: list[str]) -> None:
    with pytest.raises(DataError, match="a column must be left"):
        Recipe.of(file, columns=["word", "pos", "chunk"], labels=labels)


def test_layers_of_grmm_text_get_names(tmp_path: Path) -> None:
    path = tmp_path / "a.grmm"
    path.write_text("DT B-NP ---- w=The\nNN I-NP ---- w=cat\n")
    recipe = Recipe.of(path)
    assert recipe.layers == ("layer1", "layer2")
    (example,) = recipe.layered(path)
    assert example.tokens == [["w=The"], ["w=cat"]]
    assert example.layers == (("DT", "NN"), ("B-NP", "I-NP"))
    assert Recipe.of(path, labels=["pos", "np"]).layers == ("pos", "np")
    with pytest.raises(DataError, match="2 labels a token, and 1 names"):
        Recipe.of(path, labels=["pos"])
    with pytest.raises(DataError, match="no columns, no template"):
        Recipe.of(path, columns=["word", "pos"])
    (tmp_path / "b.grmm").write_text("---- w=The\n")
    assert next(recipe.read(tmp_path / "b.grmm")).layers is None
    (tmp_path / "c.grmm").write_text("DT ---- w=The\n")
    with pytest.raises(DataError, match="1 labels a token where the model has"):
        list(recipe.read(tmp_path / "c.grmm"))
