"""The CRF on real text: CRFsuite's objective with its settings, and chunks found in new text."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn import CRF, word_features
from mrflearn.estimators.labelling import chunk_f1
from mrflearn.io.formats import ColumnSentence, read_columns

pytestmark = pytest.mark.data
Sequences = list[list[list[str]]]


def featurised(sentences: list[ColumnSentence]) -> tuple[Sequences, list[list[str]]]:
    rows = [list(zip(s["word"], s["pos"], strict=True)) for s in sentences]
    return [word_features(own) for own in rows], [list(s["chunk"]) for s in sentences]


def test_chunking_as_crfsuite_does_it(data_folder: Path, tmp_path: Path) -> None:
    train = list(read_columns(data_folder / "conll2000" / "train.txt"))[:300]
    test = list(read_columns(data_folder / "conll2000" / "test.txt"))[:200]
    X, y = featurised(train)
    crf = CRF(c2=1.0).fit(X, y)
    assert crf.outcome_.converged
    V, z = featurised(test)
    found = crf.predict(V).tolist()
    assert chunk_f1(z, found) > 0.85
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    for items, tags in zip(X, y, strict=True):
        trainer.append(items, tags)
    trainer.set_params({"c2": 1.0})
    trainer.train(str(tmp_path / "model"))
    assert crf.outcome_.value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-4)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    same = [ours == tagger.tag(items) for ours, items in zip(found, V, strict=True)]
    assert sum(same) > 0.95 * len(same)
