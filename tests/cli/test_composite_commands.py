"""The composite model on the command line: train, score, parse, next-word, inspect, sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn import load
from mrflearn.describe import tasks_of
from mrflearn.io.ptb import read_trees
from mrflearn.serving.examples import explained
from support.command import run

TEXT = "the cat sat\nthe dog sat\n\na cat ran\nthe dog ran\n\n" * 6


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a model of all three parts."""
    folder = tmp_path_factory.mktemp("composite")
    (folder / "text.txt").write_text(TEXT)
    trained = run(
        "train", "composite", str(folder / "text.txt"), "--topics", "2", "--grammar",
        "latent:2,3", "--max-iterations", "2", "--validation", str(folder / "text.txt"), "-q",
        "-o", str(folder / "m"), "--plot", str(folder / "em.png"), "--json",
    )  # fmt: skip
    answer = trained.json()
    assert answer["vocabulary"] == 8
    assert answer["validation_perplexity"] > 1
    assert (folder / "em.png").stat().st_size > 0
    return folder


def test_scores_say_what_they_are_counted_over(place: Path) -> None:
    model, text = str(place / "m"), str(place / "text.txt")
    scored = run("score", model, text, "--json").json()
    assert (scored["tokens"], scored["words"], scored["vocabulary"]) == (96, 72, 8)
    assert "one end per sentence" in scored["policy"]
    assert "perplexity" in run("score", model, text).out
    assert run("score", model, text, "--method", "ais").code == 2


def test_trees_are_told_one_a_line(place: Path) -> None:
    done = run("parse", str(place / "m"), str(place / "text.txt"))
    assert len(done.out.splitlines()) == 24
    (place / "trees").write_text(done.out)
    assert next(read_trees(place / "trees")).words == ("the", "cat", "sat")
    (place / "one.txt").write_text("the cat sat\n")
    found = run("parse", str(place / "m"), str(place / "one.txt"), "--json").json()
    assert found["words"] == ["the", "cat", "sat"]
    assert found["tree"].count("(") == 5


def test_next_words_inspect_sample(place: Path) -> None:
    model = str(place / "m")
    found = run("next-word", model, "the", "-n", "3", "--json").json()
    assert len(found["next"]) == 3
    with_document = run("next-word", model, "--document", str(place / "text.txt"))
    assert "probability" in with_document.out
    inspected = run("inspect", model, "-n", "3", "--json").json()
    assert (inspected["phrases"], inspected["preterminals"], inspected["topics"]) == (2, 3, 2)
    assert [len(words) for words in inspected["topic_words"]] == [3, 3]
    assert "Topics:" in run("inspect", model).out
    assert run("inspect", model, "--label", "NP").code == 2
    drawn = run("sample", model, "-n", "2", "-o", str(place / "new.txt"))
    assert drawn.code == 0
    documents = run("sample", model, "-n", "2", "--json").json()["samples"]
    lines = ["\n".join(map(" ".join, sentences)) + "\n" for sentences in documents]
    assert (place / "new.txt").read_text() == "\n".join(lines)
    assert (place / "new.txt").read_text().count("\n\n") == 1


def test_parts_alone_and_other_models(place: Path) -> None:
    text, model = str(place / "text.txt"), str(place / "plain")
    assert run("train", "composite", text, "-q", "-o", model).code == 0
    assert "without a grammar" in run("parse", model, text).err
    ngram = str(place / "ngram")
    run("train", "ngram", text, "-o", ngram)
    mine = run("next-word", model, "the", "--json").json()["next"]
    theirs = run("next-word", ngram, "the", "--json").json()["next"]
    assert dict(mine) == pytest.approx(dict(theirs))
    assert run("next-word", ngram, "the", "--document", text).code == 2
    assert "no answer to `mrflearn parse`" in run("parse", ngram, text).err


def test_mistakes_are_told(place: Path) -> None:
    text, out = str(place / "text.txt"), str(place / "never")
    start = ["train", "composite", text, "-q", "-o", out]
    for extra, code, says in (
        (["--grammar", "penn"], 1, "latent:10,20"),
        (["--levels", "xy"], 1, "no level"),
        (["--resume"], 2, "--checkpoint"),
        (["--restarts", "2"], 2, "--restarts"),
        (["--horizontal", "0"], 2, "--horizontal"),
    ):
        failed = run(*start, *extra)
        assert failed.code == code
        assert says in failed.err
    assert not Path(out).exists()
    refused = run("parse", str(place / "m"), text, "-n", "2")  # it has the best tree alone
    assert (refused.code, refused.out) == (2, "")
    assert "--number: has no effect on a CompositeLanguageModel" in refused.err


def test_an_example_is_drawn_where_no_built_in_one_has_known_words(place: Path) -> None:
    model = load(place / "m")
    example = explained(tasks_of(model)[0])["examples"][0].split()
    (drawn,) = model.sample(1, sentences=10, longest=10)
    assert example in drawn


def test_without_a_grammar_a_page_offers_no_trees(place: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    options = ("--topics", "2", "--max-iterations", "1", "--dtype", "float32", "-q")
    found = run("train", "composite", str(place / "text.txt"), *options, "-o", str(model))
    assert found.code == 0, found.err
    fitted = load(model)
    assert (fitted.grammar, fitted.dtype) == (None, "float32")
    assert [task.name for task in tasks_of(fitted)] == ["next word", "topics"]


def test_trees_come_in_order_however_many_are_parsed_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, text = str(place / "m"), str(place / "text.txt")
    whole = run("parse", model, text).out
    monkeypatch.setattr("mrflearn.describe.grammars.AT_ONCE", 3)
    assert run("parse", model, text).out == whole
    (place / "ordered").write_text(whole)
    told = [" ".join(tree.words) for tree in read_trees(place / "ordered")]
    assert told == [line for line in TEXT.splitlines() if line]


def test_a_model_without_a_grammar_is_not_asked_to_parse(place: Path, tmp_path: Path) -> None:
    words = ("--grammar", "none", "--topics", "2", "--max-iterations", "2", "-q")
    done = run("train", "composite", str(place / "text.txt"), *words, "-o", str(tmp_path / "m"))
    assert done.code == 0, done.err
    names = [task.name for task in tasks_of(load(tmp_path / "m"))]
    assert "parse" not in names
    assert "next word" in names
