"""The commands of the Markov random field language model, as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.cli.options import shard_paths
from mrflearn.inference import annealed
from support.command import run

LINES = ["the cat sat on the mat", "the dog sat on the rug", "a cat saw the dog", "a dog ran"]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("lm") / "text.txt"
    path.write_text("\n".join(LINES * 5) + "\n")
    return path


@pytest.fixture(scope="module")
def model(text) -> Path:
    folder = text.parent / "model"
    plot = text.parent / "curve.png"
    found = run(
        *("train", "lm", str(text), "--validation", str(text)),
        *("-o", str(folder), "--plot", str(plot)),
        *("--dims", "4", "--max-iterations", "30", "--quiet", "--json"),
    )
    assert found.code == 0, found.err
    answer = found.json()
    assert {
        "validation_bound_per_position",
        "seconds",
        "evaluations",
        "peak_memory_mb",
    } <= answer.keys()
    assert answer["validation_bound_per_position"] == pytest.approx(
        answer["train_bound_per_position"]
    )
    assert answer["peak_memory_mb"] > 50
    assert plot.stat().st_size > 1000
    return folder


def test_training_in_words(text, tmp_path):
    found = run(
        *("train", "lm", str(text), "-o", str(tmp_path / "m"), "--bound", "stars"),
        *("--dims", "2", "--max-iterations", "10", "-q"),
    )
    assert found.code == 0, found.err
    assert found.facts()["train bound per position"].endswith(" nats")
    assert "bounds are proven" in found.err
    assert "training text" in found.err
    assert "--validation" in found.err
    assert "--min-count 2" in found.err
    (tmp_path / "new.txt").write_text("the zebra sat\n")
    assert "held no <unk>" in run("score", str(tmp_path / "m"), str(tmp_path / "new.txt")).err
    assert "held no <unk>" not in run("score", str(tmp_path / "m"), str(text)).err


def test_moments_train_like_text(text, tmp_path):
    assert run("count", str(text), "-o", str(tmp_path / "text.moments")).code == 0
    options = ("--dims", "2", "--max-iterations", "10", "-q", "--json", "--overwrite")
    answers = [
        run("train", "lm", str(source), "-o", str(tmp_path / "m"), *options).json()
        for source in (text, tmp_path / "text.moments")
    ]
    assert answers[0]["train_bound_per_position"] == answers[1]["train_bound_per_position"]


@pytest.mark.usefixtures("shared_processes")
def test_several_files_train_like_one(text, tmp_path):
    lines = text.read_text().splitlines(keepends=True)
    parts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, some in zip(parts, (lines[:7], lines[7:]), strict=True):
        path.write_text("".join(some))
    options = ("-o", str(tmp_path / "m"), "--dims", "2", "--max-iterations", "10", "-q", "--json")
    options += ("--overwrite",)
    sources = ([str(text)], [str(path) for path in parts], [*map(str, parts), "--jobs", "2"])
    answers = [run("train", "lm", *source, *options).json() for source in sources]
    bounds = {answer["train_bound_per_position"] for answer in answers}
    assert len(bounds) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--weights", "0.8,0.2", "--bound", "stars"), "--weights"),
        (("--estimator", "ml", "--checkpoint", "c"), "--checkpoint"),
        (("--master", "local[2]"), "--master"),
        (("--jobs", "2"), "--jobs"),
        (("--engine", "spark"), "--master"),
        (("--resume",), "--checkpoint"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_options_without_effect_are_refused(text, tmp_path, options, complaint):
    found = run("train", "lm", str(text), "-o", str(tmp_path / "m"), *options)
    assert found.code in (1, 2)
    assert complaint in found.err


def test_score(model, text, monkeypatch):
    monkeypatch.setattr(annealed, "MOST_TEMPERATURES", 60)
    answers = {
        method: run("score", str(model), str(text), "--method", method, "--json").json()
        for method in ("bound", "ring", "exact", "pl", "ais")
    }
    assert (
        answers["bound"]["log_likelihood"]
        <= answers["ring"]["log_likelihood"]
        <= answers["exact"]["log_likelihood"]
    )
    assert answers["ais"]["standard_error"] > 0
    assert 1 <= answers["ais"]["effective_chains"] <= 256
    assert answers["ais"]["reliable"]
    assert "effective_chains" not in answers["ring"]
    assert answers["pl"]["words"] == sum(len(line.split()) for line in LINES * 5)
    plain = run("score", str(model), str(text))
    assert "a proven lower bound" in plain.out
    sampled = run("score", str(model), str(text), "--method", "ais").out
    assert sampled.count("standard error") == 1
    assert "effective chains" in sampled


def test_fill(model):
    found = run("fill", str(model), "the cat _ on the mat", "--json").json()
    assert found["words"][0][0] == "sat"
    assert "sat" in run("fill", str(model), "the cat _ on the mat", "-n", "1").out
    wrong = run("fill", str(model), "no gap here")
    assert (wrong.code, "0 gaps" in wrong.err) == (1, True)


def test_neighbors(model):
    found = run("neighbors", str(model), "cat", "sat", "-n", "2", "--json").json()
    assert {key: len(value) for key, value in found.items()} == {"cat": 2, "sat": 2}
    assert "cosine" in run("neighbors", str(model), "cat", "dog", "-n", "2").out
    assert run("neighbors", str(model), "cat", "dog", "a", "--analogy").code == 0
    assert run("neighbors", str(model), "cat", "--analogy").code == 2
    assert run("neighbors", str(model), "zebra").code == 1


def test_a_map_of_neighbours(model, tmp_path):
    picture = tmp_path / "map.svg"
    found = run("neighbors", str(model), "cat", "dog", "-n", "2", "--plot", str(picture))
    assert found.code == 0, found.err
    assert picture.read_text().count("<text") >= 3 or picture.stat().st_size > 5000
    assert run("neighbors", str(model), "cat", "--plot", str(tmp_path / "map.txt")).code == 1


def test_sample_and_inspect(model, tmp_path):
    found = run("sample", str(model), "-n", "5", "--seed", "3")
    assert len(found.out.splitlines()) == 5
    assert run("sample", str(model), "-n", "2", "-o", str(tmp_path / "new.txt")).code == 0
    assert len((tmp_path / "new.txt").read_text().splitlines()) == 2
    assert run("inspect", str(model), "--json").json()["context"] == 2
    assert "vocabulary" in run("inspect", str(model)).out
    assert run("inspect", str(model), "--plot", str(tmp_path / "map.png")).code == 0
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_its_vectors_are_judged(model, text, tmp_path):
    (tmp_path / "pairs.txt").write_text("cat dog 9\nmat rug 8\ncat sat 1\non rug 2\n")
    assert run("evaluate", str(model), str(tmp_path / "pairs.txt"), "--json").json()["pairs"] == 4
    found = run("evaluate", str(model), str(text))
    assert (found.code, "mrflearn score" in found.err) == (1, True)


def test_mistakes(tmp_path, text):
    target = str(tmp_path / "m")
    (tmp_path / "empty.txt").write_text("\n\n")
    empty = run("train", "lm", str(tmp_path / "empty.txt"), "-o", target, "-q")
    assert (empty.code, "no words" in empty.err) == (1, True)
    assert run("train", "lm", str(text), "-o", target, "--weights", "x").code == 2
    assert run("train", "lm", str(tmp_path / "missing.txt"), "-o", target).code == 1


def test_a_picture_of_no_known_format_is_refused_before_training(text, tmp_path):
    found = run("train", "lm", str(text), "-o", str(tmp_path / "m"), "--plot", "curve.xyz", "-q")
    assert found.code == 1
    assert found.err == "mrflearn: curve.xyz: the name of a picture ends in .png, .svg or .pdf.\n"
    assert not (tmp_path / "m").exists()


def test_inspect_tells_people_the_most_frequent_words(model):
    told = run("inspect", str(model), "-n", "1").out.splitlines()
    assert ["most", "frequent", "the"] in [line.split() for line in told]


def test_word_vectors_are_not_written_as_an_arpa_file(model, tmp_path):
    failed = run("convert", str(model), str(tmp_path / "m.arpa"))
    assert failed.code == 1
    assert "no ARPA file" in failed.err
    assert not (tmp_path / "m.arpa").exists()


def test_windows_and_triples(text, tmp_path):
    options = ("--bound", "windows", "--triples", "--dims", "4", "--max-iterations", "40")
    found = run("train", "lm", str(text), "-o", str(tmp_path / "m"), *options, "-q", "--json")
    assert found.code == 0, found.err
    assert found.json()["bound"] == "windows"
    assert found.json()["slack"] < 1e-3
    filled = run("fill", str(tmp_path / "m"), "the cat _ on the mat", "-n", "1")
    assert "sat" in filled.out
    assert run("score", str(tmp_path / "m"), str(text), "--method", "ring").code == 0
    both = run("fill", str(tmp_path / "m"), "the cat _ _ the mat", "-n", "1")
    assert "sat on" in both.out
    assert "sat" in run("next-word", str(tmp_path / "m"), "the cat", "-n", "1").out


def test_counts_with_triples_are_learned_from(text, tmp_path):
    kept, plain = tmp_path / "t.moments", tmp_path / "p.moments"
    counted = run("count", str(text), "--triples", "-o", str(kept), "--json").json()
    assert counted["triples"] > 0
    assert run("count", str(text), "-o", str(plain)).code == 0
    brief = ("--triples", "--dims", "2", "--max-iterations", "3", "-q")
    assert run("train", "lm", str(kept), *brief, "-o", str(tmp_path / "m")).code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--bound", "windows", "--weights", "0.9,0.1"), "--bound chains"),
        (("--bound", "stars", "--weights", "0.9,0.1"), "--bound chains"),
    ],
)
def test_options_of_other_bounds_are_refused(text, tmp_path, options, said):
    found = run("train", "lm", str(text), "-o", str(tmp_path / "m"), *options)
    assert found.code == 2
    assert said in found.err


def test_odd_texts_give_a_right_answer_or_a_clear_error(text, tmp_path):
    content = {
        "one": b"word\n",
        "long": b"a b c d e f g h " * 125_000 + b"\n",
        "strangers": b"nothing known\nhere\n",
        "junk": bytes(range(256)) * 40,
        "blank": b"\n  \n\n",
    }
    for name, octets in content.items():
        (tmp_path / name).write_bytes(octets)
    brief = ("-o", str(tmp_path / "m"), "--max-iterations", "10", "--dims", "2", "-q", "--json")

    def train(*arguments):
        return run("train", "lm", *arguments, *brief, "--overwrite")

    assert train(str(tmp_path / "one")).json()["vocabulary"] == 3
    assert train(str(tmp_path / "long")).json()["train_bound_per_position"] > -2.2
    unknown = train(str(text), "--validation", str(tmp_path / "strangers")).json()
    assert unknown["validation_bound_per_position"] < unknown["train_bound_per_position"]
    junk = train(str(tmp_path / "junk"))
    assert (junk.code, "junk:2: " in junk.err and "UTF-8" in junk.err) == (1, True)
    blank = train(str(text), "--validation", str(tmp_path / "blank"))
    assert (blank.code, "blank: there are no words" in blank.err) == (1, True)


def test_workers_elsewhere_are_told_whole_paths():
    given = [Path("part-1.txt"), Path("/texts/part-2.txt")]
    assert shard_paths(given, "local") == given
    assert shard_paths(given, "spark") == [Path.cwd() / "part-1.txt", given[1]]
