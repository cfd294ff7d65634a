"""The moments that a field expects of sentences some of whose tags are unknown.

The gradient of log Z by a score is how often that score is expected to count.  [Jernite, Rush,
Sontag 2015, section 7] names this, with expectation-maximisation, as the way to tags from
unlabelled text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.features.joint_moments import JointMoments, count_joint
from mrflearn.features.tagged_sentences import UNKNOWN, TaggedSentences
from mrflearn.graph.lifted_scores import SEPARATOR, TagScores
from mrflearn.inference.lifted_tags import SentenceTags

LARGEST_BATCH = 2**22  # scores of states held at once; bounds memory, changes no result


def expected_moments(scores: TagScores, sentences: TaggedSentences) -> JointMoments:
    """Expected counts given the words, and the tags where they are known."""
    places = tuple(scores.words)
    leaves = [part.detach().clone().requires_grad_(True) for part in _parts(scores)]
    own = TagScores(leaves[0], dict(zip(places, leaves[1:], strict=True)))
    totals = [torch.zeros_like(leaf, dtype=torch.float64) for leaf in leaves]
    for part in _batches(sentences, LARGEST_BATCH // scores.tags ** len(scores.transitions)):
        with torch.enable_grad():
            words = torch.from_numpy(part.words).to(leaves[0].device)
            lengths = torch.from_numpy(part.lengths).to(words.device)
            allowed = _allowed(part.tags, scores.tags).to(words.device)
            chains = SentenceTags.of(own, words, lengths, allowed)
            slopes = torch.autograd.grad(chains.log_partition().sum(), leaves)
        for total, slope in zip(totals, slopes, strict=True):
            total += slope
    transitions, *words_of = (total.cpu().numpy() for total in totals)
    found = JointMoments(
        transitions, {p: csr_array(counts) for p, counts in zip(places, words_of, strict=True)}
    )
    return found + _of_separators(sentences, scores)


def _parts(scores: TagScores) -> list[Tensor]:
    return [scores.transitions, *scores.words.values()]


def _of_separators(sentences: TaggedSentences, scores: TagScores) -> JointMoments:
    """What no tag of a word has part in."""
    untagged = np.full_like(sentences.tags, UNKNOWN)
    bare = TaggedSentences(sentences.words, untagged, sentences.lengths)
    shape = scores.vocabulary, scores.tags
    return count_joint(bare, shape, len(scores.transitions), tuple(scores.words))


def _allowed(tags: Int[np.ndarray, " n"], count: int) -> Bool[Tensor, "n s"]:
    known = torch.from_numpy(tags).unsqueeze(1)
    return (known == UNKNOWN) | (known == torch.arange(SEPARATOR + 1, count))


def _batches(sentences: TaggedSentences, most: int) -> Iterator[TaggedSentences]:
    """The sentences in groups of about so many tokens."""
    group = (np.cumsum(sentences.lengths) - 1) // max(most, 1)
    for number in np.unique(group):
        yield sentences.part(group == number)
