"""Language models against their peers on the same text, in one run, as ratios.

n-gram models: training (KenLM's lmplz, NLTK) and scoring (KenLM reads our ARPA file: the same
model, so perplexities must agree).  Word vectors: rank correlation with people's scores, and
seconds (ours with reading the file), beside gensim.  Kernels: the lifted bound's value and
gradient beside the float64 twin.
Sizes: the same training of a text once, four and sixteen times over, which should take as long.
Trigrams: the trigram field of 2,000 words beside Kneser-Ney models of the same words.

Text: Penn Treebank under MRFLEARN_DATA (for sizes WikiText-2), else built-in English.  A peer that
cannot run says why.  `lm.py vectors sizes` runs these parts alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rivals import ask_process, best

from mrflearn import LanguageModel, NgramLanguageModel, WordVectors
from mrflearn.datasets.english import sample_documents
from mrflearn.estimators.lifted_training import LiftedSettings, train_lifted
from mrflearn.evaluation.similarity import CosineSpace, word_similarity
from mrflearn.features.moments import count_text
from mrflearn.io.corpus import Vocabulary, count_words, read_sentences, write_sentences
from mrflearn.io.similarity import read_pairs
from mrflearn.io.vectors import read_vectors
from mrflearn.kernels.low_rank import star_logsumexp

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers-lm" / "bin" / "python"
REPEATS, SECONDS, THREADS = 3, 600, 2
SIZE_WORDS, SIZE_EVALUATIONS, SIZE_REPEATS = 2_000, 8, 3
TRIGRAM_STEPS = 400


@dataclass(frozen=True)
class Corpus:
    """Training and test text as plain files, and a folder of word-likeness sets if there is one."""

    name: str
    train: Path
    test: Path
    likeness: Path | None
    larger: Path | None = None


def corpus(folder: Path) -> Corpus:
    data = os.environ.get("MRFLEARN_DATA")
    train, test = folder / "train.txt", folder / "test.txt"
    if data and Path(data, "ptb-lm").is_dir():
        write_sentences(train, read_sentences(Path(data, "ptb-lm", "train.txt.gz")))
        write_sentences(test, read_sentences(Path(data, "ptb-lm", "test.txt")))
        larger = Path(data, "wikitext-2", "wiki.train.tokens.gz")
        return Corpus("Penn Treebank", train, test, Path(data, "word-similarity"), larger)
    for path, seed in ((train, 0), (test, 1)):
        documents = sample_documents(1000 if path == train else 100, seed=seed)
        write_sentences(path, (s.words for d in documents for s in d.sentences))
    return Corpus("built-in English", train, test, None)


def ask(peer: str, task: dict[str, Any]) -> dict[str, Any]:
    """The peer's answer, or a record with the reason why there is none."""
    if not PEERS.exists():
        return {"error": "not installed: run benchmarks/setup_lm_peers.py"}
    # -I keeps the script's folder off the path: a peer's file may be named like its library.
    command = [str(PEERS), "-I", str(HERE / "lm_peers" / f"{peer}.py")]
    return ask_process(command, task, seconds=SECONDS, threads=None)


def row(name: str, ours: float, peer: str, theirs: dict[str, Any], note: str = "") -> list[str]:
    if "error" in theirs:
        return [name, f"{ours:.3f}", peer, "-", "-", f"{note} {theirs['error']}".strip()]
    ratio = f"{theirs['seconds'] / ours:.1f}x"
    remark = "; ".join(part for part in (note, theirs.get("note", "")) if part)
    return [name, f"{ours:.3f}", peer, f"{theirs['seconds']:.3f}", ratio, remark]


def training(text: Corpus) -> Iterator[list[str]]:
    for order in (2, 3, 5):
        seconds, model = best(lambda n=order: NgramLanguageModel(n).fit(text.train))
        note = f"test perplexity {model.perplexity(text.test):.2f}"
        task = {"text": str(text.train), "order": order, "repeats": REPEATS}
        name = f"train {order}-gram Kneser-Ney"
        yield row(name, seconds, "kenlm lmplz", ask("kenlm_train", task), note)
        if order == 3:
            yield row(name, seconds, "nltk", ask("nltk_ngrams", task), note)


def scoring(text: Corpus, folder: Path) -> Iterator[list[str]]:
    for order in (3, 5):
        model = NgramLanguageModel(order).fit(text.train)
        arpa = folder / f"{order}.arpa"
        model.export(arpa)
        seconds, perplexity = best(lambda m=model: m.perplexity(text.test))
        task = {"arpa": str(arpa), "text": str(text.test), "repeats": REPEATS}
        theirs = ask("kenlm_query", task)
        name = f"score test text, {order}-gram"
        if "error" not in theirs and abs(theirs["perplexity"] / perplexity - 1) > 1e-5:
            theirs = {"error": f"answers differ: {perplexity} and {theirs['perplexity']}"}
        yield row(name, seconds, "kenlm query", theirs, f"both {perplexity:.3f}")


def vectors(text: Corpus, folder: Path) -> Iterator[list[str]]:
    dims = 30
    seconds, model = best(lambda: WordVectors(dims).fit(text.train))
    spaces = {"ours": CosineSpace(model.vocabulary_.words, model.vectors_)}
    for epochs in (5, 20):
        path = folder / "vectors.txt"
        task = {"text": str(text.train), "dims": dims, "epochs": epochs, "threads": THREADS}
        theirs = ask("gensim_vectors", task | {"vectors": str(path)})
        note = ""
        if "error" not in theirs and text.likeness is not None:
            found = read_vectors(path)
            spaces["theirs"] = CosineSpace(found.names, found.values)
            note = _likenesses(spaces, text.likeness)
        yield row(f"word vectors, D = {dims}", seconds, f"gensim, {epochs} epochs", theirs, note)


def _likenesses(spaces: dict[str, CosineSpace], folder: Path) -> str:
    sets = {"WS-353": "EN-WS-353-ALL", "MEN": "EN-MEN-TR-3k"}
    notes = []
    for name, file in sets.items():
        pairs = list(read_pairs(folder / f"{file}.txt"))
        figures = [word_similarity(space, pairs).spearman for space in spaces.values()]
        notes.append(f"{name} " + " against ".join(f"{figure:.3f}" for figure in figures))
    return ", ".join(notes)


def _whole_array(
    left: torch.Tensor,
    right: torch.Tensor,
    bias: torch.Tensor,
    centre: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """What `star_logsumexp` computes, from the whole array of scores."""
    scores = scale * left @ right.mT + bias.unsqueeze(1)
    return (centre + scores.logsumexp(2).sum(0)).logsumexp(0)


def kernels() -> Iterator[list[str]]:
    """One value and gradient of the star bound, C words, K = 2, D = 32."""
    for words in (2_000, 10_000):
        generator = torch.Generator().manual_seed(0)
        shapes = ((1, words, 32), (2, words, 32), (2, words), (words,))
        double = [torch.randn(s, generator=generator, dtype=torch.float64) / 4 for s in shapes]
        single = [x.float() for x in double]
        slow, exact = best(lambda x=double: _differentiate(_whole_array, x), 1)
        seconds, found = best(lambda x=single: _differentiate(star_logsumexp, x))
        apart = float((found[1].double() - exact[1]).norm() / exact[1].norm())
        theirs = {"seconds": slow, "note": f"gradients agree to {apart:.0e}"}
        if apart > 1e-5:
            theirs = {"error": f"gradients differ by {apart:.0e}: no time counts"}
        yield row(f"star bound, C = {words:,}", seconds, "float64 reference", theirs)


def sizes(text: Corpus) -> Iterator[list[str]]:
    """Medians of interleaved trainings, each of the same number of evaluations.

    Processor seconds: other work on the machine disturbs them least.
    """
    path = text.larger or text.train
    vocabulary = Vocabulary.from_counts(count_words(path), size=SIZE_WORDS)
    once = count_text(path, vocabulary=vocabulary)
    corpora = {times: reduce(add, [once] * times) for times in (1, 4, 16)}
    settings = LiftedSettings(max_iterations=SIZE_EVALUATIONS, max_evaluations=SIZE_EVALUATIONS)
    seconds: dict[int, list[float]] = {times: [] for times in corpora}
    for _ in range(SIZE_REPEATS):
        for times, moments in corpora.items():
            began = time.process_time()
            train_lifted(moments, settings)
            seconds[times].append(time.process_time() - began)
    middle = {times: median(found) for times, found in seconds.items()}
    for times, found in seconds.items():
        spread = f"{corpora[times].words:,} words; from {min(found):.2f} to {max(found):.2f} s"
        theirs = {"seconds": middle[times], "note": spread}
        name = f"{SIZE_EVALUATIONS} evaluations, processor s"
        yield row(name, middle[1], f"text x {times}", theirs)


def trigrams(text: Corpus) -> Iterator[list[str]]:
    """The trigram field of the most frequent words on a CPU, in processor seconds.

    Its value is a proven bound, those of the n-gram models are exact; nats per position, two
    separators a sentence counted in.
    """
    vocabulary = Vocabulary.from_counts(count_words(text.train), size=SIZE_WORDS)
    train, test = (
        count_text(path, vocabulary=vocabulary, triples=True) for path in (text.train, text.test)
    )
    began = time.process_time()
    model = LanguageModel(50, triples=True, max_iterations=TRIGRAM_STEPS, verbose=True).fit(train)
    seconds = time.process_time() - began
    ours = model.text_score(test).per_position
    read = {
        path: [vocabulary.decode(vocabulary.encode(line).tolist()) for line in read_sentences(path)]
        for path in (text.train, text.test)
    }
    for order in (3, 5):
        began = time.process_time()
        rival = NgramLanguageModel(order).fit(read[text.train])
        found = {"seconds": time.process_time() - began}
        theirs = rival.text_score(read[text.test]).log_likelihood / test.positions
        note = f"test text: {ours:.4f} (bound) against {theirs:.4f} (exact)"
        name = f"trigram field, C = {len(vocabulary):,}, processor s"
        yield row(name, seconds, f"Kneser-Ney {order}-gram", found, note)


def _differentiate(kernel: Any, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    value = kernel(*leaves, 3.0)
    return value, torch.autograd.grad(value, leaves[0])[0]


def main() -> None:
    torch.set_num_threads(THREADS)
    rows = [["work", "mrflearn s", "peer", "peer s", "ratio", "remark"]]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text = corpus(folder)
        print(f"text: {text.name}; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        parts = {
            "training": training(text),
            "scoring": scoring(text, folder),
            "kernels": kernels(),
            "vectors": vectors(text, folder),
            "sizes": sizes(text),
            "trigrams": trigrams(text),
        }
        for name in sys.argv[1:] or parts:
            for found in parts[name]:
                print("  ".join(found[:3]), file=sys.stderr)
                rows.append(found)
    widths = [max(len(cells[k]) for cells in rows) for k in range(6)]
    for cells in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(line.rstrip())


if __name__ == "__main__":
    main()
