"""The plain-text moments and vocabulary of MRF-LM, the authors' own program (srush/MRF-LM).

Whole numbers set apart by white space: N, the number of variables K + 1, their K + 1 sizes; then
for each offset 1..K the number of distinct pairs and, a line each, `left right count`.  A second
file lists the words as `id word count`.  Checked against the program that writes this layout and
the one that reads it; its README alone transposes the pair, the programs put the left word first.
"""

from __future__ import annotations

import numpy as np

from mrflearn.errors import DataError
from mrflearn.features.moments import Counts, Moments, PairCounts, sum_by_key
from mrflearn.io.files import PathLike, read_bytes, read_lines, write_text
from mrflearn.io.text import split_tokens
from mrflearn.io.vocabulary import Vocabulary

LONGEST_NUMBER = 20  # of 64 bits, with its sign


def write_mrflm(moments: Moments, path: PathLike) -> None:
    """Writes the pairs as MRF-LM reads them; sentence lengths and words are not part of it."""
    if moments.offsets != tuple((step,) for step in range(1, moments.context + 1)):
        raise DataError(
            f"MRF-LM knows the offsets 1, 2, ... K of a text; these are {moments.offsets}.",
            path=path,
        )
    variables = len(moments.offsets) + 1
    with write_text(path) as stream:
        stream.write(f"{moments.positions} {variables}\n")
        stream.write(f"{moments.states}\n" * variables)
        for pair in moments.pairs:
            stream.write(f"{len(pair.count)}\n")
            # Most frequent first, as the authors' program writes them.
            order = np.argsort(-pair.count, kind="stable")
            np.savetxt(stream, np.stack([pair.left, pair.right, pair.count], 1)[order], "%d")


def read_mrflm(path: PathLike, vocabulary: Vocabulary | None = None) -> Moments:
    """Moments of a file in MRF-LM's layout; sentence lengths stay unknown.

    The file does not name its separator: without a vocabulary there is none, and N cannot be
    rounded up.  Word counts are those of the left ends of pairs, equal on a ring at each offset.
    """
    numbers = _numbers(path)
    positions, variables = _take(numbers, 0, 2, path)
    if variables < 2:
        raise DataError(
            f"{variables} variables leave no pair; the layout needs 2 or more.", path=path
        )
    sizes = _take(numbers, 2, int(variables), path)
    states = int(sizes[0])
    if (sizes != states).any() or (vocabulary is not None and len(vocabulary) != states):
        raise DataError(
            f"states {sizes.tolist()} for the variables; a language model has one vocabulary"
            + ("." if vocabulary is None else f", and the one given has {len(vocabulary)} words."),
            path=path,
        )
    pairs = _read_pairs(numbers, 2 + int(variables), int(variables) - 1, states, path)
    unary = np.bincount(pairs[0].left, pairs[0].count, minlength=states).astype(np.int64)
    if unary.sum() != positions:
        raise DataError(f"N is {positions}, but there are {unary.sum()} pairs.", path=path)
    none = np.zeros(0, np.int64)
    return Moments(
        offsets=tuple((step,) for step in range(1, int(variables))),
        unary=unary,
        pairs=pairs,
        lengths=none,
        length_counts=none,
        separator=None if vocabulary is None else vocabulary.separator,
        vocabulary=vocabulary,
    )


def write_mrflm_vocabulary(moments: Moments, path: PathLike) -> None:
    """Writes the words as `id word count`, a line each."""
    if moments.vocabulary is None:
        raise DataError("these moments have no vocabulary to write.", path=path)
    words = zip(moments.vocabulary.words, moments.unary.tolist(), strict=True)
    with write_text(path) as stream:
        stream.writelines(f"{k} {word} {count}\n" for k, (word, count) in enumerate(words))


def read_mrflm_vocabulary(path: PathLike) -> Vocabulary:
    """The words of MRF-LM's vocabulary file (`id word count` a line), in the order of their ids."""
    words: list[str] = []
    for line, text in read_lines(path):
        fields = split_tokens(text)
        if len(fields) != 3 or fields[0] != str(len(words)):
            raise DataError(
                f"expected '{len(words)} word count', found {text[:80]!r}.", path=path, line=line
            )
        words.append(fields[1])
    try:
        return Vocabulary(tuple(words))
    except DataError as error:
        raise DataError(error.problem, path=path) from error


def _read_pairs(
    numbers: Counts, start: int, offsets: int, states: int, path: PathLike
) -> tuple[PairCounts, ...]:
    pairs = []
    for _ in range(offsets):
        rows = int(_take(numbers, start, 1, path)[0])
        table = _take(numbers, start + 1, 3 * rows, path).reshape(rows, 3)
        start += 1 + 3 * rows
        if (table < 0).any() or (table[:, :2] >= states).any():
            raise DataError(f"a pair has a state outside 0..{states - 1}.", path=path)
        codes, count = sum_by_key(table[:, 0] * states + table[:, 1], table[:, 2])
        pairs.append(PairCounts.from_codes(codes, count, states))
    if start != len(numbers):
        raise DataError(f"{len(numbers) - start} numbers too many at the end.", path=path)
    return tuple(pairs)


def _numbers(path: PathLike) -> Counts:
    fields = read_bytes(path).split()
    try:
        # An array of bytes has room for the longest in every place.
        if max(map(len, fields), default=0) > LONGEST_NUMBER:
            raise ValueError("one is too long")
        return np.array(fields, dtype=np.bytes_).astype(np.int64)
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"MRF-LM moments are whole numbers alone ({error}). Is this the moments file?",
            path=path,
        ) from error


def _take(numbers: Counts, start: int, many: int, path: PathLike) -> Counts:
    if many < 0 or start + many > len(numbers):
        raise DataError(
            f"ends after {len(numbers)} numbers, {start + many} are announced. Is it complete?",
            path=path,
        )
    return numbers[start : start + many]
