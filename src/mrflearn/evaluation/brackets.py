"""Precision, recall and F1 of labelled brackets, counted as evalb counts them.

The conventions are those of evalb with the parameter file of Collins: tags are no brackets;
punctuation (and empty elements) do not count as words, and brackets around nothing else are
dropped; a root called TOP, S1 or ROOT, or not called anything, is dropped; labels are compared
without their functions (NP-SBJ is NP), and PRT is ADVP; equal brackets are counted as often as
they stand there.  A sentence without a parse has no brackets, so it costs recall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.evaluation.chunks import ChunkReport
from mrflearn.io.trees import TRACE, Tree, strip_functions

NOT_COUNTED = frozenset({TRACE, ",", ":", "``", "''", "."})  # tags
NO_BRACKET = frozenset({"", "TOP", "S1", "ROOT"})
SAME = {"PRT": "ADVP"}

Bracket = tuple[str, int, int]  # label, and the words from the second up to the third number


@dataclass(frozen=True, slots=True)
class BracketReport(ChunkReport):
    """The score of all brackets and of each label, and shares of whole sentences and of tags."""

    sentences: int
    unparsed: int
    exact: float  # sentences with all brackets right and none too many
    tagging: float  # words, without punctuation, with the right tag


def bracket_report(truth: Iterable[Tree], predicted: Iterable[Tree | None]) -> BracketReport:
    """The scores of predicted trees; None stands for a sentence without a parse."""
    right, found, actual = Counter[str](), Counter[str](), Counter[str]()
    sentences = unparsed = exact = tags = tags_right = 0
    for number, (true, guess) in enumerate(zip(truth, predicted, strict=True), start=1):
        if guess is not None and guess.words != true.words:
            raise DataError(
                f"sentence {number}: the true tree has {len(true.words)} words and the parse "
                f"{len(guess.words)}, or other ones ({' '.join(true.words[:5])} ...). Brackets can "
                "be compared over the same words only; were empty elements taken out of both?"
            )
        wanted, given = brackets(true), Counter[Bracket]() if guess is None else brackets(guess)
        actual.update(label for label, *_ in wanted.elements())
        found.update(label for label, *_ in given.elements())
        right.update(label for label, *_ in (wanted & given).elements())
        mine = () if guess is None else guess.tags
        counted = [i for i, tag in enumerate(true.tags) if tag not in NOT_COUNTED]
        tags += len(counted)
        tags_right += sum(i < len(mine) and mine[i] == true.tags[i] for i in counted)
        sentences += 1
        unparsed += guess is None
        exact += guess is not None and wanted == given
    report = ChunkReport.of(right, found, actual)
    share = exact / sentences if sentences else 0.0
    tagging = tags_right / tags if tags else 0.0
    return BracketReport(report.total, report.by_label, sentences, unparsed, share, tagging)


def brackets(tree: Tree) -> Counter[Bracket]:
    """How often each labelled bracket stands in a tree; words are counted without punctuation."""
    found: Counter[Bracket] = Counter()
    begun: list[int] = []  # the first words of constituents that are not closed yet
    position, stack = 0, [(strip_functions(tree), False)]
    while stack:
        node, closing = stack.pop()
        if closing:
            first = begun.pop()
            label = SAME.get(node.label, node.label)
            if position > first and label not in NO_BRACKET:
                found[label, first, position] += 1
        elif node.word is not None:
            position += node.label not in NOT_COUNTED
        else:
            begun.append(position)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
    return found
