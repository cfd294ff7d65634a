"""Everything the library reads, with small valid inputs: what the fuzzing run damages.

The formats of `support.formats`, those that are only read, and model directories.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import safetensors.torch
import torch

import mrflearn
from mrflearn.estimators.crf_weights import read_weights
from mrflearn.features.moments_file import (
    load_moments,
    read_mrflm,
    read_mrflm_vocabulary,
    save_moments,
    write_mrflm,
    write_mrflm_vocabulary,
)
from mrflearn.features.recipes import Recipe, read_template
from mrflearn.graph.builders import from_edge_file
from mrflearn.io.contacts import read_contacts
from mrflearn.io.corpus import Vocabulary, read_blocks, read_documents
from mrflearn.io.prose import Prose
from mrflearn.io.samples import read_samples
from mrflearn.io.tag_files import TagSource
from mrflearn.models import storage
from mrflearn.training.checkpoint import Checkpoint, read_checkpoint
from support.edited import signed
from support.estimators import estimators
from support.formats import FORMATS
from support.moments import count_sentences
from support.mutations import damage

LIGHT_MODELS = ("HMMTagger", "NgramLanguageModel", "PCFG")  # fitted in no time


@dataclass(frozen=True)
class Reader:
    """A reader, and how an input for it is made from a random generator."""

    name: str
    read: Callable[[Path], Any]
    put: Callable[[Path, Random], Path]  # writes a damaged input into a folder; gives its path


def every_reader(models: Iterable[str] | None = None) -> list[Reader]:
    """All readers; with the models of these classes, by default of all."""
    readers = [_of_file(form.name, form.valid, form.read, form.suffix) for form in FORMATS]
    readers += [_of_file(*own) for own in (*_texts(), *_binaries())]
    doors = estimators()
    readers += [_of_model(name, doors[name].fitted()) for name in models or doors]
    return readers


def _of_file(name: str, valid: bytes, read: Callable[[Path], Any], suffix: str) -> Reader:
    def put(folder: Path, random: Random) -> Path:
        path = folder / f"given{suffix}"
        integer = random.randint
        way = integer(0, 9)
        if way == 0:  # a sound gzip file of damaged content
            content = gzip.compress(damage(valid, integer), 1)
        elif way == 1:
            content = damage(gzip.compress(valid, 1), integer)
        else:
            content = damage(valid, integer)
        path.write_bytes(content)
        return path

    return Reader(name, read, put)


Entry = tuple[str, bytes, Callable[[Path], Any], str]


def _texts() -> list[Entry]:
    """The formats that are read as text, and not written or not the same."""
    tagged = b"The\tDT\ndog\tNN\n\n.\t.\n"
    conllu = next(form.valid for form in FORMATS if form.name == "conllu")
    return [
        ("blocks of text", b"a b\nc\n", lambda path: list(read_blocks(path)), ".txt"),
        ("documents", b"a b\nc d\n\ne\n", lambda path: list(read_documents(path)), ".txt"),
        ("prose", b"It\xe2\x80\x99s 3.5.\n\nNo!\n", lambda path: Prose(path).count(), ".txt"),
        ("records", b'{"text": "a b\\nc"}\n', lambda path: Prose(path).count(), ".jsonl"),
        ("vocabulary", b"<S>\n<unk>\nthe\ncat\n", Vocabulary.load, ".txt"),
        ("contacts", b"0 1.5\t2\n1.5 0 -1e-3\n2 -1e-3 0\n", read_contacts, ".mat"),
        ("edges", b"# two\n0 1\n1, 2\n", from_edge_file, ".edges"),
        (
            "templates",
            b"# CRF++\nU00:%x[-1,0]/%x[0,1]\nB\n*:w=%x[2,0]\n",
            lambda path: read_template(path),
            ".template",
        ),
        (
            "CRF weights",
            (
                b"label\tA\nlabel\tB\nstate\tw=x\tA\t0.5\ndense\tc\tB\t1e-3\ntransition\tA\tB\t-1\n"
                b"edge\tw=y\tA\tB\t2.5\n"
            ),
            read_weights,
            ".weights",
        ),
        ("tags in columns", tagged, _read_tags, ".txt"),
        ("tags in conllu", conllu, _read_tags, ".conllu"),
        ("features of columns", tagged, _read_examples, ".txt"),
        ("features of conllu", conllu, _read_examples, ".conllu"),
    ]


def _read_tags(path: Path) -> Any:
    return list(TagSource.of(path).read(path))


def _read_examples(path: Path) -> Any:
    return list(Recipe.of(path).read(path))


def _binaries() -> list[Entry]:
    """Formats whose valid content is made by the library itself."""
    words = Vocabulary(("<S>", "<unk>", "a", "b"))
    moments = count_sentences([["a", "b"], ["b", "a", "a"]], words, 2)
    entries: list[Entry] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        save_moments(moments, path)
        entries.append(("moments", path.read_bytes(), load_moments, ".moments"))
        write_mrflm(moments, path)
        entries.append(("MRF-LM moments", path.read_bytes(), read_mrflm, ".dat"))
        write_mrflm_vocabulary(moments, path)
        entries.append(("MRF-LM words", path.read_bytes(), read_mrflm_vocabulary, ".txt"))
        tensors = {"x": torch.arange(3.0), "history": torch.zeros(2, 2, dtype=torch.float64)}
        Checkpoint(path).write({"seed": 1, "name": "é"}, tensors)
        entries.append(("checkpoint", path.read_bytes(), read_checkpoint, ".checkpoint"))
    for kind in ("<f8", "|u1", ">i4"):
        stream = io.BytesIO()
        np.save(stream, np.array([[0, 1], [2, 1]]).astype(kind))
        entries.append((f"samples as npy of {kind}", stream.getvalue(), read_samples, ".npy"))
    try:
        import pyarrow as pa
        from pyarrow.parquet import write_table
    except ImportError:
        return entries
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [0, 1, None], "b": [1.0, 0.0, 2.0]})
    write_table(table, sink, compression="none")
    return [*entries, ("parquet", sink.getvalue().to_pybytes(), read_samples, ".parquet")]


def _of_model(name: str, fitted: Any) -> Reader:
    with tempfile.TemporaryDirectory() as made:
        fitted.save(Path(made) / "model")
        config = (Path(made) / "model" / storage.CONFIG).read_bytes()
        tensors = (Path(made) / "model" / storage.TENSORS).read_bytes()

    def put(folder: Path, random: Random) -> Path:
        path = folder / "model"
        path.mkdir(exist_ok=True)
        files = {storage.CONFIG: config, storage.TENSORS: tensors}
        way = random.randint(0, 7)
        if way < 2:  # damage that the checksums should find
            own = list(files)[way]
            files[own] = damage(files[own], random.randint)
        else:  # what an adversary writes: other values, and checksums that are right
            files = _disguised(config, tensors, way, random)
        for own, content in files.items():
            (path / own).write_bytes(content)
        return path

    return Reader(f"model {name}", mrflearn.load, put)


def _disguised(config: bytes, tensors: bytes, way: int, random: Random) -> dict[str, bytes]:
    told = json.loads(config)
    if way == 2:
        tensors = damage(tensors, random.randint)
    elif way == 3:
        tensors = _other_tensors(tensors, random)
    else:
        part = "settings" if way == 4 else "learned"
        for _ in range(random.randint(1, 2)):
            told[part] = _other(told[part], random)
    return {storage.CONFIG: signed(told, tensors), storage.TENSORS: tensors}


VALUES: list[Any] = [None, True, 0, -1, 10**12, 10**30, 1.5, 1e300, "", "x", "<S>", [], [1], ["x"]]
VALUES += [{}, {"x": 1}, [[]], [None], -(2**63), "0", "stars", "é"]


def _other(value: Any, random: Random) -> Any:
    """The value with one of its parts replaced, gone, or there twice."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        if random.random() < 0.1:
            return {name: own for name, own in value.items() if name != key}
        return {**value, key: _other(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.7:
        place = random.randrange(len(value))
        change = random.randint(0, 3)
        middle = ([], [value[place]] * 2, *[[_other(value[place], random)]] * 2)[change]
        return value[:place] + middle + value[place + 1 :]
    return random.choice(VALUES)


def _other_tensors(content: bytes, random: Random) -> bytes:
    """The tensors with one of another shape, type or content, gone, or another's."""
    tensors = safetensors.torch.load(content)
    name = random.choice(sorted(tensors))
    own = tensors[name]
    wild = torch.tensor([-1, 2**31, 2**62, -(2**63)])[random.randint(0, 3)]
    others: list[Callable[[], torch.Tensor | None]] = [
        lambda: None,
        lambda: own[:-1].clone() if own.ndim else own,
        lambda: own.flatten().clone(),
        lambda: own.to(torch.float16),
        lambda: own.to(torch.int64),
        lambda: torch.full_like(own, float("nan")) if own.is_floating_point() else own,
        lambda: torch.full_like(own, wild) if own.dtype == torch.int64 else -own.to(torch.int32),
        lambda: torch.zeros(0, *own.shape[1:], dtype=own.dtype),
        lambda: torch.zeros(random.choice([0, 1, 3]), 2**20, 0, dtype=own.dtype),
        lambda: tensors[random.choice(sorted(tensors))].clone(),
    ]
    other = random.choice(others)()
    del tensors[name]
    if other is not None:
        tensors[name] = other
    return safetensors.torch.save(tensors)
