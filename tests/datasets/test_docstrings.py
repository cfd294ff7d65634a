"""Docstrings as a corpus: parsed and never imported, each sentence once, in a stable order."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import pytest

from mrflearn.datasets.docstrings import docstring_documents, docstring_sentences
from mrflearn.errors import DataError

MODULE = '''"""The module is the first to speak."""
raise SystemExit("importing this would end everything")

class Thing:
    """A thing that can be opened with \\d and closed."""

    async def open(self):
        """Opens the thing for you."""

        def inner():
            """The inner one is found too."""

if True:
    try:
        def late():
            """The module is the first to speak."""
    except ValueError:
        def later():
            "It is said in a handler at last."
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    root = tmp_path / "talkative"
    (root / "sub").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "_private").mkdir()
    (root / "__init__.py").write_text("")
    (root / "a.py").write_text(MODULE)
    (root / "broken.py").write_text('"""This is never seen by anybody."""\n def f(:\n')
    (root / "nul.py").write_bytes(b'"""This is never seen by anybody."""\n\x00')
    (root / "latin.py").write_bytes(b'"""This is never seen by anyb\xf6dy."""\n')
    text = '"""Opens the thing for you. It is new in here."""\n'
    for folder in ("sub", "tests", "_private"):
        (root / folder / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "talkative"


def test_sentences_come_once_and_in_order(package: str) -> None:
    read = [" ".join(tokens) for tokens in docstring_sentences([package])]
    assert read == [
        "the module is the first to speak .",
        "opens the thing for you .",
        "the inner one is found too .",
        "it is said in a handler at last .",
        "it is new in here .",
    ]
    assert package not in sys.modules


def test_a_module_is_a_document(package: str) -> None:
    documents = list(docstring_documents([package], lower=False))
    assert [document.module for document in documents] == ["talkative.a", "talkative.sub"]
    assert documents[1].sentences == (("It", "is", "new", "in", "here", "."),)


def test_unknown_packages_are_named() -> None:
    for name in ("no_such_package", "not a name", "os.path", "this"):
        with pytest.raises(DataError, match=name):
            next(docstring_sentences([name]))


def test_every_machine_has_a_hundred_thousand_tokens() -> None:
    seen: set[tuple[str, ...]] = set()
    tokens = 0
    for sentence in docstring_sentences():
        assert sentence not in seen
        seen.add(sentence)
        tokens += len(sentence)
        if tokens >= 100_000:
            break
    assert tokens >= 100_000
    vocabulary = {token for sentence in seen for token in sentence}
    assert 5_000 < len(vocabulary) < 40_000
    assert {"the", "file", "returns", "."} <= vocabulary


def test_the_order_is_stable_and_nothing_is_imported() -> None:
    loaded = set(sys.modules)
    first = list(islice(docstring_sentences(["numpy"]), 500))
    assert first == list(islice(docstring_sentences(["numpy"]), 500))
    assert not {name for name in set(sys.modules) - loaded if name.startswith("numpy")}
