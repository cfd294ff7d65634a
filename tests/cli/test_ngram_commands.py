"""The n-gram model on the command line: train, score, sample, inspect, convert."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrflearn.io.arpa import read_arpa
from support.command import run


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat\nthe dog sat\na cat ran\n" * 5)
    return path


def test_from_text_to_answers(tmp_path: Path, text: Path) -> None:
    model = str(tmp_path / "m")
    options = ("--order", "2", "--validation", str(text), "-o", model, "--json")
    trained = run("train", "ngram", str(text), *options).json()
    assert trained["ngrams"][0] == trained["vocabulary"] == 8
    assert trained["fallback_orders"] == [1, 2]
    scored = run("score", model, str(text), "--json").json()
    assert scored["perplexity"] == trained["validation_perplexity"]
    assert (scored["tokens"], scored["words"], scored["unknown"]) == (60, 45, 0)
    assert "scored as <unk>" in scored["policy"]
    assert "perplexity" in run("score", model, str(text)).out
    assert len(run("sample", model, "-n", "4").out.splitlines()) == 4
    assert run("inspect", model, "--json").json()["order"] == 2
    assert "first word" in run("inspect", model).out
    assert run("convert", model, str(tmp_path / "m.arpa")).code == 0
    assert len(read_arpa(tmp_path / "m.arpa").sections) == 2
    assert run("convert", str(tmp_path / "m.arpa"), str(tmp_path / "back")).code == 0
    again = run("score", str(tmp_path / "back"), str(text), "--json").json()
    assert again["perplexity"] == pytest.approx(scored["perplexity"], rel=1e-6)


def test_documents_are_scored_into_a_table(tmp_path: Path, text: Path) -> None:
    model, pages, table = str(tmp_path / "m"), tmp_path / "pages.jsonl", tmp_path / "scores.csv"
    assert run("train", "ngram", str(text), "-o", model, "-q").code == 0
    pages.write_text('{"text": "the cat sat"}\n{"text": ""}\n{"text": "a zebra\\nran"}\n')
    found = run("score", model, str(pages), "-o", str(table), "--json").json()
    header, *rows = (line.split(",") for line in table.read_text().splitlines())
    assert header == ["document", "tokens", "words", "sentences", "unknown", "log_likelihood",
                      "perplexity"]  # fmt: skip
    assert [row[:5] for row in rows] == [list("14310"), list("20000"), list("35321")]
    assert [row[6] == "nan" for row in rows] == [False, True, False]
    assert found["log_likelihood"] == pytest.approx(sum(float(row[5]) for row in rows))
    assert found["documents"] == 3


def test_raw_text_is_learned_from_scored_and_continued(tmp_path: Path) -> None:
    raw, pages, model = tmp_path / "raw.txt", tmp_path / "pages.jsonl", str(tmp_path / "m")
    raw.write_text("The cat sat.\nThe dog, he sat.\n" * 3)
    options = ("--tokenize", "--validation", str(raw), "-o", model, "--json")
    trained = run("train", "ngram", str(raw), *options).json()
    assert (trained["tokenize"], trained["vocabulary"]) == (True, 2 + 7)
    assert run("score", model, str(raw), "--json").json()["unknown"] == 0
    asked = run("next-word", model, "The dog,", "--json").json()
    assert (asked["words"], asked["next"][0][0]) == (["the", "dog", ","], "he")
    pages.write_text('{"text": "THE cat sat."}\n\n{"text": ""}\n{"text": "A zebra\\nsat"}\n')
    for more in ([], ["--json"]):
        answers = run("score", model, str(pages), *more).out.splitlines()
        first, second, third = map(json.loads, answers)
        assert [own["document"] for own in (first, second, third)] == [1, 2, 3]
        assert [own["tokens"] for own in (first, second, third)] == [5, 0, 5]
        assert (first["unknown"], third["unknown"], third["sentences"]) == (0, 2, 2)
        assert first["perplexity"] < third["perplexity"]
        assert second["perplexity"] is None
    pages.write_text('{"text": "a"}\n{"text"\n')
    failed = run("score", model, str(pages))
    assert failed.code == 1
    assert f"{pages}:2: " in failed.err


def test_plain_words_and_remarks(tmp_path: Path, text: Path) -> None:
    done = run("train", "ngram", str(text), "--validation", str(text), "-o", str(tmp_path / "m"))
    assert done.code == 0
    assert float(done.facts()["validation perplexity"]) > 1
    assert "fixed ones are used" in done.err


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "junk.txt").write_bytes(bytes(range(256)))
    for name, says in (("empty", "no words"), ("junk", "not UTF-8"), ("absent", "no such file")):
        failed = run("train", "ngram", str(tmp_path / f"{name}.txt"), "-o", str(tmp_path / "m"))
        assert failed.code == 1
        assert says in failed.err
        assert len(failed.err.splitlines()) == 1


def test_a_bad_second_file_leaves_no_model_behind(tmp_path: Path, text: Path) -> None:
    failed = run(
        "train",
        "ngram",
        str(text),
        "--validation",
        str(tmp_path / "absent"),
        "-o",
        str(tmp_path / "m"),
    )
    assert failed.code == 1
    assert not (tmp_path / "m").exists()


def test_options_of_other_models_are_refused(tmp_path: Path, text: Path) -> None:
    model = str(tmp_path / "m")
    run("train", "ngram", str(text), "-o", model)
    assert run("score", model, str(text), "--method", "ais").code == 2
    for option in (["--label", "NP"], ["--plot", "a.png"], ["--apart", "4"]):
        refused = run("inspect", model, *option)
        assert refused.code == 2
        assert option[0] in refused.err


@pytest.mark.parametrize("kind", ["ngram", "lm", "vectors", "count"])
def test_documents_are_not_learned_from_as_sentences(tmp_path: Path, kind: str) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text('{"text": "a cat"}\n' * 9)
    command = ("count", str(pages)) if kind == "count" else ("train", kind, str(pages))
    failed = run(*command, "-o", str(tmp_path / "out.moments"))
    assert failed.code == 1
    assert f"{pages}: " in failed.err
    assert not (tmp_path / "out.moments").exists()
