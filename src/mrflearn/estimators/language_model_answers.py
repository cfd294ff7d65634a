"""What a fitted Markov random field language model is asked: gaps, next words, new text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.text_score import ScoresText
from mrflearn.estimators.word_vectors import WordSpace
from mrflearn.graph.trigrams import OFFSETS, TrigramPotentials
from mrflearn.inference import transfer
from mrflearn.inference.lifted import LogPartitionBound
from mrflearn.inference.trigram_gaps import best_continuations, best_fillings
from mrflearn.inference.trigrams import (
    States,
    draw_sentences,
    next_log_probabilities,
    perron_vector,
)
from mrflearn.io.corpus import LINE_END_ID, Text, encode_corpus, hold
from mrflearn.models.lifted import NeighbourModel, moved
from mrflearn.models.ngram import END
from mrflearn.models.trigrams import TrigramModel
from mrflearn.objectives.lifted import Gaps, log_conditionals

MOST_FOR_EXACT_SAMPLES = 1 << 20  # windows times words
WORDS_AT_A_TIME = 256  # whose scores of all words are held at once
LONGEST = 500  # words of a sentence that is drawn until it ends
Ranked = list[tuple[str, float]]
GAP = "_"


class LanguageModelAnswers(WordSpace, ScoresText):
    """Answers of a field of words, from both sides of a word and, with triples, from its left."""

    random_state: int
    model_: NeighbourModel | TrigramModel
    log_partition_bound_: LogPartitionBound
    _lengths: NDArray[np.int64]
    _right: States | None = None  # Perron's, of what comes after a state

    def fill(self, words: Sequence[str | None], n: int = 10, *, gap: str = GAP) -> Ranked:
        """The most probable words for the one gap of a sentence.

        Parameters
        ----------
        words
            The sentence, with None or `gap` for the missing word.
        n
            How many words to return.
        gap
            The word that marks the gap.

        Returns
        -------
        list of (word, probability)
            p(word | all other words), exactly, from both sides; the most probable first.  `<unk>`
            is among them: any word outside the vocabulary.

        """
        scores = self._gap_scores(words, gap)
        chances, best = scores.softmax(0).topk(min(n, len(scores) - 1))
        return self._ranked(best, chances)

    def fill_gaps(
        self, words: Sequence[str | None], n: int = 5, *, gap: str = GAP
    ) -> list[tuple[tuple[str, ...], float]]:
        """The most probable words for all gaps of a sentence together; needs `triples`.

        Parameters
        ----------
        words
            The sentence, with None or `gap` for each missing word.
        n
            How many fillings to return.
        gap
            The word that marks a gap.

        Returns
        -------
        list of (words, probability)
            Words from left to right, with their exact probability given all other words; the most
            probable first.  A filling whose beginning is not among the 64 best is missed.

        """
        model = self._trigrams("fill_gaps")
        if model.offsets > OFFSETS:
            raise SettingsError(
                "fill_gaps is for models of order 3; this one has longer n-grams. Fill one gap at "
                "a time (fill), or train with order=3."
            )
        line = self._line(words, gap)
        if None not in line:
            raise DataError(f"the sentence has no gaps; mark each missing word as {gap!r}.")
        scores = model.to(torch.device("cpu"), torch.float64).potentials()
        decode = self.vocabulary_.decode
        return [
            (tuple(decode(found.words)), float(np.exp(found.log_probability)))
            for found in best_fillings(scores, line, n)
        ]

    def choose(
        self, words: Sequence[str | None], alternatives: Sequence[str], *, gap: str = GAP
    ) -> Ranked:
        """Which of some words stands in the gap of a sentence.

        Parameters
        ----------
        words
            The sentence, with None or `gap` for the word in question.
        alternatives
            The words to choose from, such as `("their", "there")`.
        gap
            The word that marks the gap.

        Returns
        -------
        list of (word, probability)
            All of them by p(word | all other words, one of the alternatives), exactly.

        """
        new = [word for word in alternatives if word not in self.vocabulary_]
        if new or not len(alternatives):
            raise DataError(
                f"{', '.join(map(repr, new)) or 'no word'} to choose from: alternatives must be "
                "words of the vocabulary, at least one."
            )
        asked = torch.from_numpy(self.vocabulary_.encode(alternatives).astype(np.int64))
        chances = self._gap_scores(words, gap)[asked].softmax(0)
        order = chances.argsort(descending=True, stable=True)
        return self._ranked(asked[order], chances[order])

    @torch.no_grad()
    def word_scores(self, X: Text) -> list[NDArray[np.float64]]:
        """How well each word fits: its log-probability given all other words of its sentence.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        list of ndarray of shape (words,)
            log p(word | all other words) in nats for each sentence that has words; they do not add
            up to a probability of the sentence.

        """
        ids = encode_corpus(hold(X), self.vocabulary_)
        values = self._gap_log_likelihoods(ids).cpu().numpy()
        after = np.cumsum(ids != LINE_END_ID)[ids == LINE_END_ID]
        return [part for part in np.split(values, after[:-1]) if len(part)]

    def next_word(self, words: Sequence[str] = (), n: int = 10) -> Ranked:
        """The most probable continuations of the beginning of a sentence; needs `triples`.

        Parameters
        ----------
        words
            The sentence so far.
        n
            How many words to return.

        Returns
        -------
        list of (word, probability)
            The most probable first, all that may come later summed out; `</s>` is the end of the
            sentence.

        """
        model, right = self._trigrams("next_word"), self._future()
        edge = [self.vocabulary_.separator] * model.offsets
        known = torch.tensor([[*edge, *self._known(words)]], device=right.device)
        history = known[:, -model.offsets :]
        chances = next_log_probabilities(model.potentials(), right, history)[0].exp()
        chances, best = chances.topk(min(n, int(chances.count_nonzero())))
        return self._ranked(best, chances)

    def continuations(
        self, words: Sequence[str] = (), n: int = 5, *, length: int = 5
    ) -> list[tuple[list[str], float]]:
        """The most probable next words together; needs `triples`.

        Parameters
        ----------
        words
            The sentence so far.
        n
            How many continuations to return.
        length
            Words of each, unless the sentence ends before, by `</s>`.

        Returns
        -------
        list of (words, probability)
            The most probable first, of those whose beginnings are among the 64 best.

        """
        model, right = self._trigrams("continuations"), self._future()
        if length < 1:
            raise SettingsError(f"length must be >= 1; got {length}.")
        found = best_continuations(model.potentials(), right, self._known(words), length, n)
        return [(self._shown(own.words), float(np.exp(own.log_probability))) for own in found]

    @torch.no_grad()
    def next_word_scores(self, X: Text) -> list[NDArray[np.float64]]:
        """Log-probability of each word and sentence end given what is to its left; needs `triples`.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        list of ndarray of shape (words + 1,)
            Nats, for each sentence that has words; all of them add up to no less than
            `text_score(X).log_likelihood`, and are the log-likelihood of a normalised model of the
            text from left to right.

        """
        model, right = self._trigrams("next_word_scores"), self._future()
        edge, scores = self.vocabulary_.separator, model.potentials()
        ids = encode_corpus(hold(X), self.vocabulary_)
        lines = [part[part != LINE_END_ID] for part in np.split(ids, np.flatnonzero(ids < 0))]
        lines = [part for part in lines if len(part)]
        reach, slide = model.offsets, np.lib.stride_tricks.sliding_window_view
        padded = [np.concatenate([(edge,) * reach, part, (edge,)]) for part in lines]
        rows = np.concatenate([slide(own, reach + 1) for own in padded]).astype(np.int64)
        pieces = []
        for part in torch.from_numpy(rows).to(right.device).split(WORDS_AT_A_TIME):
            chances = next_log_probabilities(scores, right, part[:, :-1])
            pieces.append(chances.gather(1, part[:, -1:]).squeeze(1))
        values = torch.cat(pieces).double().cpu().numpy()
        return np.split(values, np.cumsum([len(part) + 1 for part in lines])[:-1])

    def sample(
        self, n: int = 1, *, random_state: int | None = None, sweeps: int = 50
    ) -> list[list[str]]:
        """New sentences.

        Parameters
        ----------
        n
            How many sentences to draw.
        random_state
            Seed; None takes that of the model.
        sweeps
            Gibbs sweeps; small vocabularies need none, as their sentences are drawn exactly.

        Returns
        -------
        list of list of str
            The words of each sentence.  With sparse scores of triples they are drawn exactly, word
            by word until they end; else a length comes first, as often as the text had it.

        """
        seed = self.random_state if random_state is None else random_state
        generator = np.random.default_rng(seed)
        potentials = self.model_.potentials()
        own = torch.Generator(device=potentials.unary.device)
        if isinstance(potentials, TrigramPotentials):
            own.manual_seed(int(generator.integers(1 << 62)))
            drawn = draw_sentences(potentials, self._future(), n, LONGEST, own)
            return [self.vocabulary_.decode(ids) for ids in drawn]
        seen, counts = self._lengths
        if not len(seen):
            raise SettingsError("the moments this model was learned from have no lengths.")
        found = generator.choice(seen, size=n, p=counts / counts.sum())
        separator, lengths = self.vocabulary_.separator, found.tolist()
        own.manual_seed(int(generator.integers(1 << 62)))
        if potentials.states ** (potentials.offsets + 1) <= MOST_FOR_EXACT_SAMPLES:
            sentences = transfer.exact_sentences(potentials.double(), separator, lengths, own)
        else:
            asked = torch.from_numpy(found)
            sentences = transfer.gibbs_sentences(potentials, separator, asked, sweeps, own)
        return [self.vocabulary_.decode(ids.tolist()) for ids in sentences]

    def _ranked(self, ids: Tensor, chances: Tensor) -> Ranked:
        return list(zip(self._shown(ids.tolist()), chances.tolist(), strict=True))

    def _shown(self, ids: Sequence[int]) -> list[str]:
        """The words, with `</s>` for the end of a sentence."""
        edge, words = self.vocabulary_.separator, self.vocabulary_.decode(ids)
        return [END if own == edge else word for own, word in zip(ids, words, strict=True)]

    def _known(self, words: Sequence[str]) -> list[int]:
        found: list[int] = self.vocabulary_.encode(words).tolist()
        return found

    def _line(self, words: Sequence[str | None], gap: str) -> list[int | None]:
        """The ids of a sentence; None stands for its gaps."""
        known = self._known([gap if word is None else word for word in words])
        given = zip(words, known, strict=True)
        return [None if word is None or word == gap else own for word, own in given]

    def _gap_scores(self, words: Sequence[str | None], gap: str) -> Tensor:
        """Scores of all words in the one gap of a sentence; the separator has -inf."""
        line = self._line(words, gap)
        gaps = [at for at, own in enumerate(line) if own is None]
        if len(gaps) != 1:
            raise DataError(
                f"the sentence has {len(gaps)} gaps; mark exactly one word as {gap!r}, with spaces "
                "around it."
            )
        separator, context = self.vocabulary_.separator, self.model_.offsets
        edge = [separator] * context
        ids = torch.tensor([*edge, *(separator if own is None else own for own in line), *edge])
        at = gaps[0] + context
        before, after = ids[at - context : at].flip(0), ids[at + 1 : at + 1 + context]
        model, home = self.model_, torch.device("cpu")
        if isinstance(model, TrigramModel):
            potentials: Any = model.to(home, torch.float64).potentials()
        else:
            potentials = moved(model, torch.float64, home).potentials()
        scores: Tensor = potentials.conditional(before[None], after[None])[0]
        scores[separator] = -torch.inf
        return scores

    @torch.no_grad()
    def _gap_log_likelihoods(self, ids: NDArray[np.int32]) -> Tensor:
        """log p(word | all other words) of every word of a text, in double precision."""
        scores, separator = self.model_.potentials(), self.vocabulary_.separator
        gaps = Gaps.of(ids, separator, scores.offsets).to(scores.unary.device)
        pieces = (log_conditionals(scores, own, separator) for own in gaps.split(WORDS_AT_A_TIME))
        return torch.cat([piece.double() for piece in pieces])

    def _trigrams(self, asked: str) -> TrigramModel:
        """The model; an error unless it has sparse scores of three words in a row."""
        if isinstance(self.model_, TrigramModel):
            return self.model_
        raise SettingsError(
            f"{asked} reads a model with sparse scores of three words in a row: train one by "
            "LanguageModel(triples=True)."
        )

    def _future(self) -> States:
        """What the text after each state weighs; found once, and not stored with the model."""
        if self._right is None:
            self._right = perron_vector(self._trigrams("it").potentials())
        return self._right
