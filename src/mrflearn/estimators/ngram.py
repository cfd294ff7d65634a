"""`NgramLanguageModel`: interpolated modified Kneser-Ney of any order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.text_score import OpenVocabulary, TextScore, best_words
from mrflearn.execution.held import Held
from mrflearn.features.ngrams import count_held_ngrams, count_ngrams, sentence_stream
from mrflearn.io.arpa import read_arpa, write_arpa
from mrflearn.io.corpus import (
    Documents,
    HeldText,
    Text,
    Vocabulary,
    count_corpus,
    count_text_words,
    encode_corpus,
    hold,
    hold_documents,
)
from mrflearn.io.files import PathLike, located, split_tokens
from mrflearn.io.prose import Prose, tokens
from mrflearn.models.ngram import (
    NgramModel,
    TokenScores,
    adjusted_counts,
    discounts,
    from_arpa,
    kneser_ney,
    to_arpa,
)
from mrflearn.models.storage import figure, texts

TOGETHER = 1 << 17  # words that are scored together


@dataclass(kw_only=True, eq=False, repr=False)
class NgramLanguageModel(Estimator, OpenVocabulary):
    """An n-gram language model with interpolated modified Kneser-Ney smoothing.

    A text is a path, of a file with one sentence per line, or sentences, each a list of words.
    Words of a file stand between white space, unless the model tokenizes: then files are raw text,
    JSON lines or folders of such files, and lists of words are taken as they are.

    `<unk>` in the training text is an ordinary word.  Where it does not occur, a new word has the
    probability of one word that was never seen, as in KenLM.

    Parameters
    ----------
    order
        Length of the longest n-gram; a trigram model looks at the two words before each.
    min_count
        Words seen less often are read as `<unk>`.
    vocabulary_size
        Only this many words are kept, the most frequent, `<S>` and `<unk>` included; None keeps
        all.
    tokenize
        Read files as raw text: normalised (Unicode NFKC, lower case), punctuation split off. It is
        stored with the model, which reads what it scores in the same way.
    random_state
        Seed of `sample`.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The words, with `<S>` for sentence boundaries and `<unk>` for any other word.
    ngrams_ : list of int
        Number of n-grams of each order.
    discounts_ : list of list of float
        For each order the discounts of counts 1, 2 and 3 or more; empty for a model from an ARPA
        file.
    fallback_orders_ : list of int
        Orders with too few counts to estimate discounts, which have fixed ones.
    unknown_seen_ : bool
        Whether the training text held `<unk>`.
    unknown_policy_ : str
        How words outside the vocabulary are scored, in words.
    model_ : NgramModel
        The tables of n-grams.

    """

    order: int = field(default=3, kw_only=False)
    min_count: int = 1
    vocabulary_size: int | None = None
    tokenize: bool = False
    random_state: int = 0

    def fit(self, X: Text | Held[Text], y: object = None) -> Self:
        """Learns from a text.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line; or texts
            that an executor holds, such as `place.hold(paths)`, which are counted there.
        y
            Ignored; scikit-learn passes it to every estimator.

        Returns
        -------
        NgramLanguageModel
            The estimator itself.

        """
        del y
        if self.order < 1:
            raise SettingsError(f"order must be >= 1; got {self.order}.")
        if isinstance(X, Held):
            if self.tokenize:
                raise SettingsError(
                    "tokenize=True reads files here, not where an executor holds texts: tokenize "
                    "these first, by `tokens`."
                )
            vocabulary = self._chosen_words(X.total(count_text_words))
            grams = count_held_ngrams(X, self.order, vocabulary)
        else:
            text = self._held(X)
            counts = text.count() if isinstance(text, Prose) else count_corpus(text)
            vocabulary = self._chosen_words(counts)
            stream = sentence_stream(_encoded(text, vocabulary), vocabulary.separator)
            grams = count_ngrams(stream, self.order, len(vocabulary), vocabulary.separator)
        self.model_ = kneser_ney(grams, vocabulary)
        found = [discounts(adjusted) for adjusted in adjusted_counts(grams)]
        self.discounts_: list[list[float]] = [values.tolist() for values, _ in found]
        self.fallback_orders_ = [n for n, (_, fell) in enumerate(found, start=1) if fell]
        self.unknown_seen_ = bool(grams[0].count[vocabulary.unknown])
        return self

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for sentence boundaries and `<unk>` for any other word."""
        return self.model_.vocabulary

    @property
    def ngrams_(self) -> list[int]:
        """The number of n-grams of each order."""
        return [len(table.code) for table in self.model_.tables]

    def tokens(self, text: str) -> list[str]:
        """The words of a raw text, as the model reads those of a file.

        Parameters
        ----------
        text
            The text; line ends are white space here.

        Returns
        -------
        list of str
            What white space sets apart; with `tokenize` in lower case and apart from punctuation.

        """
        return tokens(text) if self.tokenize else split_tokens(text)

    def _held(self, X: Text) -> HeldText | Prose:
        """The text in a form that can be read twice."""
        if not (self.tokenize and isinstance(X, (str, os.PathLike))):
            return hold(X)
        if str(X) != "-":
            hold(X)  # refuses a text itself
        return Prose(X).hold()

    def token_scores(self, X: Text) -> TokenScores:
        """Log-probability of every token of a text.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        TokenScores
            Arrays over words and sentence ends: log-probability in nats, whether it is an end,
            whether it is an unknown word.

        """
        found = self._token_scores(_encoded(self._held(X), self.model_.vocabulary))
        if not len(found.ends):
            raise DataError("there is nothing to score: no words. Is the file empty?")
        return found

    def _token_scores(self, ids: NDArray[np.int32]) -> TokenScores:
        model = self.model_
        separator, unknown = model.vocabulary.separator, model.vocabulary.unknown
        stream = sentence_stream(ids, separator)
        last, ends = stream[1:], np.flatnonzero(stream == separator)
        # Sentences by the hundred thousand words: n-grams are found in cache, twice as fast.
        starts = ends[np.searchsorted(ends, np.arange(0, len(stream), TOGETHER))]
        cuts = np.unique(np.append(starts, ends[-1]))
        lots = (stream[begin : end + 1] for begin, end in pairwise(cuts))
        found = [np.zeros(0), *map(model.log_probabilities, lots)]
        return TokenScores(np.concatenate(found), last == separator, last == unknown)

    def text_score(self, X: Text) -> TextScore:
        """Log-probability of a text, and what it is spread over.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        TextScore
            Log-likelihood in nats, numbers of words, sentences and unknown words, perplexity.

        """
        return TextScore.of_tokens(self.token_scores(X))

    def document_scores(self, X: Documents) -> Iterator[TextScore]:
        """The score of every document by itself, each read when it is asked for.

        Parameters
        ----------
        X
            Documents, each a list of sentences, each a list of words; or the path of a file with
            blank lines between documents, of one with an object of JSON a line, a document its
            `"text"`, or of a folder of such files.

        Yields
        ------
        TextScore
            As `text_score` gives it; the perplexity of a document without words is nan.

        """
        if isinstance(X, (str, os.PathLike)):
            source = Prose(X, tokens if self.tokenize else split_tokens)
            for ids, sizes in source.documents(self.model_.vocabulary):
                yield from _parts(self._token_scores(ids), sizes.tolist())
            return
        held = hold_documents(X)
        text = [words for own in held for words in own if len(words)]
        scores = self._token_scores(encode_corpus(text, self.model_.vocabulary))
        yield from _parts(scores, (sum(len(w) + 1 for w in own if len(w)) for own in held))

    def score_samples(self, X: Text) -> NDArray[np.float64]:
        """Log-probability of each sentence with its end.

        Parameters
        ----------
        X
            Sentences, each a list of words, or a text file with one sentence per line.

        Returns
        -------
        ndarray of shape (sentences,)
            Nats; blank sentences are skipped.

        """
        scores = self.token_scores(X)
        before = np.concatenate([[0], np.flatnonzero(scores.ends)[:-1] + 1])
        return np.asarray(np.add.reduceat(scores.log_probability, before))

    def next_word(self, words: Sequence[str] = (), n: int = 10) -> list[tuple[str, float]]:
        """The most probable continuations of the beginning of a sentence.

        Parameters
        ----------
        words
            The sentence so far.
        n
            How many words to return.

        Returns
        -------
        list of (word, probability)
            The most probable first; `</s>` is the end of the sentence.

        """
        model = self.model_
        chances = np.exp(model.next_symbol(model.vocabulary.encode(words).tolist()))
        return best_words(chances, model.vocabulary, n)

    def sample(
        self, n: int = 1, *, random_state: int | None = None, longest: int = 200
    ) -> list[list[str]]:
        """New sentences.

        Parameters
        ----------
        n
            How many sentences to draw.
        random_state
            Seed; None takes that of the model.
        longest
            Sentences are cut off after this many words.

        Returns
        -------
        list of list of str
            The words of each sentence.

        """
        model = self.model_
        seed = self.random_state if random_state is None else random_state
        generator = np.random.default_rng(seed)
        drawn = (model.sample(generator, longest) for _ in range(n))
        return [model.vocabulary.decode(ids) for ids in drawn]

    def export(self, path: PathLike) -> None:
        """Writes the model as an ARPA file, for KenLM, SRILM and others.

        Parameters
        ----------
        path
            The file to write; its name ends in .arpa or .arpa.gz.

        """
        if not str(path).removesuffix(".gz").endswith(".arpa"):
            raise SettingsError(f"{path}: an n-gram model is exported to a name in .arpa.")
        write_arpa(path, to_arpa(self.model_))

    @classmethod
    def from_arpa(cls, path: PathLike) -> Self:
        """The model in an ARPA file, however it was made.

        Parameters
        ----------
        path
            The file to read.

        Returns
        -------
        NgramLanguageModel
            A fitted model.

        """
        with located(path):
            model = from_arpa(read_arpa(path))
        self = cls(order=model.order)
        self.model_ = model
        self.discounts_ = []
        self.fallback_orders_ = []
        self.unknown_seen_ = False
        return self

    def _learned_parts(self) -> Parts:
        model = self.model_
        learned = {
            "words": list(model.vocabulary.words),
            "unknown_seen": self.unknown_seen_,
            "discounts": self.discounts_,
            "fallback_orders": self.fallback_orders_,
        }
        return learned, model.tensors()

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        vocabulary = Vocabulary(texts(learned, "words"))
        self.model_ = NgramModel.from_tensors(vocabulary, self.order, tensors)
        self.unknown_seen_ = bool(learned["unknown_seen"])
        self.discounts_ = [[figure(own) for own in values] for values in learned["discounts"]]
        self.fallback_orders_ = [int(figure(order)) for order in learned["fallback_orders"]]


def _encoded(text: HeldText | Prose, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The ids of all words, with `LINE_END_ID` after each sentence."""
    return text.encode(vocabulary) if isinstance(text, Prose) else encode_corpus(text, vocabulary)


def _parts(scores: TokenScores, sizes: Iterable[int]) -> Iterator[TextScore]:
    """The score of each document, of so many tokens in turn."""
    end = 0
    for size in sizes:
        begin, end = end, end + size
        yield TextScore.of_tokens(scores.part(slice(begin, end)))
