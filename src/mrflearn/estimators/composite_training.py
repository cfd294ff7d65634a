"""Training of composite language models: EM on the text in turns with deleted estimation.

In one phase words, rules and topic shares are learned from the text, weights of levels held; in the
other the weights are learned from each part of the text under a model of the others, everything
else held.  Within a phase no step makes its text less probable.

A level that was learned from a word explains it better than it explains new ones.  So weights of
levels are fitted where tables, rules and the n-gram model come from other folds than the words
[Jelinek & Mercer 1980], and words that these folds lack are unknown, as they will be in new text.
Tables of the others cost no training: their expected counts are summed.

All that training moves is one dictionary of tensors, which a checkpoint holds: those of the model;
`documents`, the topic shares of each; `tag_of_word`; `common`, weights as if preterminals were one;
`strength`, the tokens that the prior of topic shares is worth; the same under `best.` as they were
when the folds were most probable; `held`, log-likelihoods of the folds after each fit of weights;
`rows`, the history of EM; and `rounds` of the text that are over, or under way.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.composite_memory import (
    PLAIN,
    Memory,
    class_sizes,
    join_sources,
    longer_order,
    own_sources,
    source_names,
    unigrams_of,
    words_of_tags,
)
from mrflearn.execution.executor import Executor
from mrflearn.execution.held import Held
from mrflearn.execution.resources import choose_device, choose_dtype
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts, NgramIndex
from mrflearn.io.corpus import Document, Vocabulary
from mrflearn.models.composite_lm import (
    CompositeModel,
    CompositeShape,
    Figures,
    Level,
    NgramScores,
    TokenBatch,
    batches,
    common_weights,
    ngram_scores,
    normalised_weights,
    stream_of,
)
from mrflearn.models.ngram import NgramLevel, bucket_count
from mrflearn.models.token_mixture import TokenMixture, cache_scores
from mrflearn.models.topics import PLSA, best_strength
from mrflearn.objectives.base import under
from mrflearn.objectives.expected_counts import (
    Expected,
    RulePrior,
    ShapedBatch,
    WithShape,
    counts_of_others,
    expect,
    maximise,
)
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.composite_start import (
    GrammarStart,
    choose_grammar,
    start_model,
    start_topics,
    tag_shares_of_words,
)
from mrflearn.training.em import EM, Parameters, StepFunction
from mrflearn.training.loop import interruptible
from mrflearn.training.outcome import Row

if TYPE_CHECKING:
    from mrflearn.estimators.composite import CompositeLanguageModel

# One EM step of each phase.


def text_step(
    parameters: Parameters,
    shape: CompositeShape,
    train: Held[ShapedBatch],
    prior: RulePrior,
) -> tuple[float, Parameters]:
    """One EM step for words, rules and topic shares; the weights of levels stay as they are."""
    model, documents = CompositeModel.of(shape, parameters), parameters["documents"]
    found = expect(model, documents, train)
    drawn = found.documents.sum(dim=1, keepdim=True)
    shares = found.documents / torch.where(drawn > 0, drawn, 1.0)
    new = {**parameters, **maximise(model, prior.added(found)).tensors()}
    new["documents"] = torch.where(drawn > 0, shares, documents)
    return -found.log_likelihood - prior.log_density(model), new


class FoldTrial(NamedTuple):
    """Text for which a model is to have the right weights, and its topic shares."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    text: Held[ShapedBatch]


class DeletedModel(NamedTuple):
    """A model of all folds but one: topic shares and batches of that one, tags of its words."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    batches: Sequence[TokenBatch]
    tag_of_word: Float[Tensor, "w a"]


def weight_step(
    trials: Sequence[FoldTrial],
    centre: Float[Tensor, "b a l"],
    prior: float,
    *,
    tied: bool,
    seen: list[tuple[float, Tensor]],
) -> StepFunction:
    """EM steps for weights that several models share, after a Dirichlet prior around `centre`.

    Tied, they are the same for all preterminals.  The log-likelihood and the uses of levels
    over all trials are appended to `seen`.
    """
    kept = centre > 0

    def step(parameters: Parameters) -> tuple[float, Parameters]:
        weights = parameters["weights"]
        value, used = 0.0, torch.zeros_like(weights)
        for model, documents, own in trials:
            found = expect(replace(model, weights=weights), documents, own)
            value, used = value + found.log_likelihood, used + found.weights
        seen.append((value, used))
        penalty = prior * float((centre[kept] * weights[kept].log()).sum())
        return -value - penalty, {"weights": normalised_weights(used, centre, prior, tied)}

    return step


# Deleted estimation: each fold of a text under the model that the others teach.


FOLDS = 5
RARE = 1e-3  # uses that a rule has had at least
FEW_DOCUMENTS = 10  # below so many, sentences are divided instead


def fold_numbers(text: DocumentStream, documents: int) -> Counts:
    """The fold of each sentence; documents go together, unless there are few."""
    unit = text.document if documents >= FEW_DOCUMENTS else np.arange(len(text))
    return np.unique(unit % FOLDS, return_inverse=True)[1]


class Fold(NamedTuple):
    """A part of a text, and the n-gram model, if there is one, of the other parts.

    The n-gram model of a sentence itself would leave nothing for grammar and topics to explain.
    `new` is the part as text that none of it was learned from: words that the other parts do not
    have are unknown there.
    """

    sentences: Counts
    text: DocumentStream
    new: DocumentStream
    level: NgramLevel | None

    def scores(self, text: DocumentStream, tag_of_word: Tensor) -> NgramScores:
        """What the n-gram model makes of each token of `text` or `new`."""
        return ngram_scores(text, self.level, tag_of_word.double().cpu().numpy())


def folds_of(
    text: DocumentStream, number: Counts, order: int, vocabulary: Vocabulary
) -> list[Fold]:
    """The folds of a text; `order` 1: without n-gram models.  A single fold judges itself."""
    folds = []
    for k in range(int(number.max()) + 1):
        inside, outside = np.flatnonzero(number == k), np.flatnonzero(number != k)
        rest = text.part(outside if len(outside) else inside)
        level = NgramLevel.learn(rest.stream, order, vocabulary) if order > 1 else None
        own, known = text.part(inside), np.isin(np.arange(len(vocabulary)), rest.stream)
        new = np.where(known[own.stream], own.stream, vocabulary.unknown)
        folds.append(Fold(inside, own, replace(own, stream=new), level))
    return folds


def fold_scores(text: DocumentStream, folds: Sequence[Fold], tag_of_word: Tensor) -> NgramScores:
    """What the n-gram models of the folds make of each token of the text."""
    order = np.argsort(np.concatenate([text.places(f.sentences, ends=True) for f in folds]))
    pieces = zip(*(fold.scores(fold.text, tag_of_word) for fold in folds), strict=True)
    return NgramScores(*(np.concatenate(own)[order] for own in pieces))


def deleted_model(model: CompositeModel, rest: Expected, prior: RulePrior) -> CompositeModel:
    """The model that the rest of a text would have taught, by its expected counts.

    A rule that the fold alone has used is made improbable, not impossible: it is needed there.
    """
    rest = prior.added(rest)
    rules, start = rest.rules.clamp(min=RARE), rest.start.clamp(min=RARE)
    return maximise(model, replace(rest, rules=rules, start=start))


def chosen_levels(settings: CompositeLanguageModel, grammar: bool) -> tuple[Level, ...]:
    """The learned levels that settings ask for: by name, or those that tags and topics need."""
    names = settings.levels
    if names is None:
        tag, topic = (["A"] if grammar else []), (["h"] if settings.topics > 1 else [])
        both = ["Ah"] if tag and topic else []
        # Beside topics, so that these need not explain common words as well.
        none = [""] if topic or not (tag or settings.order > 1) else []
        names = [*both, *tag, *topic, *none]
    return tuple(Level.read(name) for name in names)


# The two phases, and how they alternate.


WEIGHT_STEPS = 3  # of EM, each time the weights of levels have their turn
TIED_PRIOR = 5.0  # uses of levels that weights are taken to have come from, the same for all tags
TAG_PRIOR = 20.0  # uses that a preterminal's own weights need to count as much as the common ones
TREEBANK_USES = 30.0  # uses of each phrase that a treebank's rules count for beside the text
MOST_JUDGED = 60_000  # tokens enough to fit weights to: further folds are left aside
SOME_BATCHES, SOME_STEPS = 3, 5  # that starts are compared by


class CompositeFit(NamedTuple):
    """A trained model, the n-gram model of all documents, and how new documents begin."""

    model: CompositeModel
    vocabulary: Vocabulary
    names: tuple[str, ...]  # of symbols, phrases first
    ngrams: NgramLevel | None
    memory: Memory | None  # None: words come from the composite model alone
    tag_of_word: Figures  # p(preterminal | word), which the n-gram model knows tags by
    prior: Figures  # shares of topics in the training text
    strength: float  # tokens that the prior is worth
    history: tuple[Row, ...]  # of the training text and a treebank's rules, round after round
    held_out: tuple[float, ...]  # log-likelihoods of folds judged by others, between rounds
    reason: str

    @property
    def words_of_tags(self) -> Figures | None:
        """p(word | preterminal) of the grammar alone, where it is a source of words."""
        if self.memory is None or "grammar" not in self.memory.mixture.names:
            return None
        return words_of_tags(self.tag_of_word, self.memory.unigrams)


@final
class CompositeTraining:
    """One training of a composite model; each phase takes a record and gives the next one."""

    def __init__(
        self,
        settings: CompositeLanguageModel,
        documents: Sequence[Document],
        executor: Executor,
        checkpoint: Checkpoint | None,
        resume: bool,
    ) -> None:
        self.settings, self.executor = settings, executor
        dtype, device = choose_dtype(settings.dtype), choose_device(settings.device)
        counts = Counter(word for sentences in documents for words in sentences for word in words)
        if not counts:
            raise DataError("the documents hold no words. Is the file empty?")
        self.vocabulary = words = settings._chosen_words(counts)
        self.spoken, self.documents = documents, len(documents)
        self.text = stream_of(documents, words)
        self.grammar = choose_grammar(
            settings.grammar, words, settings.horizontal, settings.restarts, settings.random_state
        )
        self.like = torch.zeros(0, dtype=dtype, device=device)
        slack = 1e-5 if dtype == torch.float32 else 1e-9
        self.em = EM(settings.max_iterations, settings.tolerance, slack)
        wiring, order = self.grammar.wiring, settings.order
        levels = chosen_levels(settings, wiring is not None)
        most = 1 + max((level.words for level in levels), default=0)
        ends = wiring is None
        index = NgramIndex.of(self.text.stream, most, len(words), words.separator, ends=ends)
        moved = None if wiring is None else wiring.to(device)
        self.shape = CompositeShape(levels, index, moved, settings.topics, bucket_count(order))
        self.folds = folds_of(self.text, fold_numbers(self.text, self.documents), order, words)
        chosen = (order, settings.topics, settings.longest, levels, wiring, self.grammar.names)
        self.resume, self.checkpoint = resume, Checkpoint.on(checkpoint, chosen, words, self.text)

    def fit(self) -> CompositeFit:
        """The trained model, from the best of several starts."""
        record, reason = self.learn()
        memory = None if self.settings.derivation_only else self.learn_memory(record)
        return self.fitted(record, reason)._replace(memory=memory)

    def learn(self) -> tuple[Parameters, str]:
        """The record of the best of several starts after its training, and why that ended."""
        seed = self.settings.random_state
        topics = start_topics(self.text, self.shape, self.documents, seed)
        begun = [self.begin(start, topics) for start in self.grammar.starts]
        # What a treebank says of rules; a latent grammar says nothing.
        treebank = self.shape.grammar is not None and not self.shape.grammar.dense
        first = CompositeModel.of(self.shape, begun[0])
        self.prior = RulePrior.around(first, TREEBANK_USES if treebank else 0.0)
        return self.run(begun[0] if len(begun) == 1 else min(begun, key=self.promise))

    def fitted(self, record: Parameters, reason: str) -> CompositeFit:
        """The model that a record holds, the derivation alone."""
        order = self.settings.order
        return CompositeFit(
            CompositeModel.of(self.shape, record),
            self.vocabulary,
            self.grammar.names,
            NgramLevel.learn(self.text.stream, order, self.vocabulary) if order > 1 else None,
            None,
            record["tag_of_word"].double().cpu().numpy(),
            topic_prior(record["documents"]),
            float(record["strength"]),
            rows_of(record["rows"].tolist()),
            tuple(record["held"].tolist()),
            reason,
        )

    def begin(self, start: GrammarStart, topics: PLSA) -> Parameters:
        """The record before the first step."""
        shape, guess = self.shape, start.tag_of_word.clone()
        if not shape.ends:
            guess[shape.index.separator] = 0
        train = batches(self.text, fold_scores(self.text, self.folds, guess), shape)
        model = start_model(shape, train, topics, start, self.settings.order > 1)
        model = model.to(self.like.device, self.like.dtype)
        state = {
            **model.tensors(),
            "documents": torch.from_numpy(topics.documents).to(model.weights),
            "tag_of_word": guess,
            "common": model.weights,
            "strength": torch.tensor(10.0, dtype=torch.float64),
        }
        record = state | {f"best.{name}": value for name, value in state.items()}
        nothing = torch.zeros(0, dtype=torch.float64)
        return record | {"held": nothing, "rows": nothing.reshape(0, 3), "rounds": nothing.sum()}

    def promise(self, record: Parameters) -> float:
        """How improbable some of the text is after a few steps."""
        some = _derived(self.text_batches(record["tag_of_word"]))[:SOME_BATCHES]
        with ExitStack() as until:
            step = partial(self.step, train=[until.enter_context(self._held(some))], until=until)
            return replace(self.em, max_iterations=SOME_STEPS).fit(step, record).value

    def text_batches(self, tag_of_word: Float[Tensor, "w a"]) -> list[TokenBatch]:
        """The text, with what the n-gram models of other folds make of it."""
        scores = fold_scores(self.text, self.folds, tag_of_word)
        return batches(self.text, scores, self.shape, self.settings.longest)

    def _held(self, train: Sequence[TokenBatch]) -> Held[ShapedBatch]:
        """The batches, where the executor runs."""
        return self.executor.hold(train, WithShape(self.shape))

    def step(
        self, parameters: Parameters, train: list[Held[ShapedBatch]], until: ExitStack
    ) -> tuple[float, Parameters]:
        """One EM step on the text, which is sent to the executor here if it was not before."""
        if not train:  # a resumed training knows its tags only now
            own = self.text_batches(parameters["tag_of_word"])
            train.append(until.enter_context(self._held(own)))
        return text_step(parameters, self.shape, train[0], self.prior)

    def deleted_models(self, record: Parameters) -> tuple[Parameters, list[DeletedModel]]:
        """Folds of the text, each with the model of the others, and which words have which tags.

        Topic shares are those that the sentences before in a document suggest.
        """
        model, documents = CompositeModel.of(self.shape, record), record["documents"]
        shape, longest, counts, texts = self.shape, self.settings.longest, [], []
        for fold in self.folds:
            scores = fold.scores(fold.text, record["tag_of_word"])
            own = batches(fold.text, scores, shape, longest)
            with self._held(own) as held:
                counts.append(expect(model, documents, held))
        tags = torch.stack([found.tags for found in counts]).sum(dim=0)
        model, tagged = replace(model, tags=tags.sum(dim=0) / tags.sum()), list[Tensor]()
        # The first folds, as many as weights need.
        judged = np.cumsum([len(fold.text.stream) for fold in self.folds])
        for number in range(min(len(judged), 1 + int(np.searchsorted(judged, MOST_JUDGED)))):
            rest, fold = counts_of_others(counts, number), self.folds[number]
            tagged.append(self._tag_shares(rest.tags))
            scores = fold.scores(fold.new, tagged[-1])
            own = batches(fold.new, scores, shape, longest, by_sentence=True)
            texts.append((deleted_model(model, rest, self.prior), fold.new, own))
        strength, shares = best_strength(texts, topic_prior(documents))
        trials = [
            DeletedModel(deleted, torch.from_numpy(own).to(documents), _derived(ready), words)
            for (deleted, _, ready), own, words in zip(texts, shares, tagged, strict=True)
        ]
        found = {"tags": model.tags, "tag_of_word": self._tag_shares(tags)}
        return {**record, **found, "strength": torch.tensor(strength, dtype=torch.float64)}, trials

    def learn_memory(self, record: Parameters) -> Memory:
        """An n-gram model of the text, and weights of all sources by the folds.

        The words of a document so far are those of all folds: the document is what it is.
        """
        text, words, order = self.text, self.vocabulary, self.settings.order
        cached, size = self.settings.cache, len(text.stream) - 1
        names = source_names(self.shape, order, cached=cached)
        own, judged = self.judged_sources(record)
        given, bucket = np.ones(size), np.zeros(size, np.int64)
        stream = text.stream.copy()
        for fold in self.folds:
            places = text.places(fold.sentences, ends=True)
            if not judged[places].any():
                continue
            level = NgramLevel.learn(self._others(fold), longer_order(order), words)
            stream[places + 1] = fold.new.stream[1:]
            given[places] = np.exp(level.model.log_probabilities(fold.new.stream))
            bucket[places] = level.buckets(fold.new.stream)
        plain = None
        if PLAIN in names:
            training = self.without_grammar()
            found, reason = training.learn()
            own[PLAIN] = training.judged_sources(found)[0]["composite"]
            plain = training.fitted(found, reason)
        caches = cache_scores(replace(text, stream=stream), order, given)
        values, classes = join_sources(own, given, bucket, caches, order, cached=cached)
        sizes = class_sizes(order, cached=cached)
        mixture = TokenMixture.fit(names, values[judged], classes[judged], sizes)
        level = NgramLevel.learn(text.stream, longer_order(order), words)
        return Memory(level, unigrams_of(text.stream, words), mixture, plain)

    def judged_sources(self, record: Parameters) -> tuple[dict[str, Figures], NDArray[np.bool_]]:
        """What the models of other folds make of the tokens of each, and which tokens those are."""
        text, words = self.text, self.vocabulary
        names = source_names(self.shape, self.settings.order, cached=False)
        size = len(text.stream) - 1
        own, judged = dict[str, Figures](), np.zeros(size, bool)
        for trial, fold in zip(self.deleted_models(record)[1], self.folds, strict=False):
            shares, made = trial.tag_of_word.double().cpu().numpy(), None
            if "grammar" in names:
                made = words_of_tags(shares, unigrams_of(self._others(fold), words))
            found = own_sources(trial.model, fold.new, trial.batches, trial.documents, made)
            places = text.places(fold.sentences, ends=True)
            for name, column in found.items():
                own.setdefault(name, np.full(size, np.nan))[places] = column
            derived = np.concatenate([batch.sentences for batch in trial.batches])
            judged[text.places(fold.sentences[derived], ends=True)] = True
        return own, judged

    def _others(self, fold: Fold) -> Counts:
        """The stream of the text without a fold; of a single fold, with it."""
        others = np.setdiff1d(np.arange(len(self.text)), fold.sentences)
        return self.text.part(others if len(others) else fold.sentences).stream

    def without_grammar(self) -> CompositeTraining:
        """The training of the same model without its grammar."""
        if self.settings.verbose:
            sys.stderr.write("the same without a grammar, as one more source of words:\n")
        settings = replace(self.settings, grammar=None, levels=None, derivation_only=True)
        return CompositeTraining(settings, self.spoken, self.executor, None, resume=False)

    def learn_weights(self, record: Parameters, *, tied: bool) -> tuple[Parameters, bool]:
        """Fits weights of levels to the folds; True where the user asked to stop.

        Tied, they are first fitted as if all preterminals were one.
        """
        with interruptible(announce=self.settings.verbose) as interrupt:
            record, folds = self.deleted_models(record)
        with ExitStack() as until:
            trials = [
                FoldTrial(own.model, own.documents, until.enter_context(self._held(own.batches)))
                for own in folds
            ]
            return self._fitted_weights(record, trials, interrupt.is_set(), tied=tied)

    def _fitted_weights(
        self, record: Parameters, trials: list[FoldTrial], stopped: bool, *, tied: bool
    ) -> tuple[Parameters, bool]:
        seen: list[tuple[float, Tensor]] = []
        em = replace(self.em, max_iterations=WEIGHT_STEPS)
        for now_tied in [True, False] if tied else [False]:
            if stopped:
                return record, True
            centre = record["weights" if now_tied else "common"]
            prior = TIED_PRIOR if now_tied else TAG_PRIOR
            step = weight_step(trials, centre, prior, tied=now_tied, seen=seen)
            outcome = em.fit(step, {"weights": record["weights"]})
            weights, stopped = outcome.model["weights"], outcome.ending == "interrupted"
            record = {**record, "weights": weights}
            record["common"] = weights if now_tied else common_weights(seen[-1][1], TIED_PRIOR)
        value = seen[-1][0]
        if value >= max(record["held"].tolist(), default=value):
            record |= {f"best.{name}": record[name] for name in under("best.", record)}
        record["held"] = torch.cat([record["held"], torch.tensor([value], dtype=torch.float64)])
        return record, stopped

    def run(self, record: Parameters) -> tuple[Parameters, str]:
        """Alternates the two, from the beginning or from a checkpoint; the last says why it ended.

        Of the models between rounds the one under which the folds are most probable is kept.
        """
        resume, stopped, most = self.resume, False, self.em.max_iterations
        rounds = max(1, min(self.settings.rounds, most))
        em = replace(self.em, max_iterations=most // rounds)
        while resume or record["rounds"] < rounds:
            if not resume:
                record, stopped = self.learn_weights(record, tied=not record["rounds"])
                record["rounds"] = record["rounds"] + 1
                if self.settings.verbose:
                    step = f"round {int(record['rounds'])} of {rounds}"
                    sys.stderr.write(f"{step}, at most {em.max_iterations} iterations of EM:\n")
            if not stopped:
                with ExitStack() as until:
                    outcome = em.fit(
                        partial(self.step, train=[], until=until),
                        record,
                        identity={"seed": self.settings.random_state},
                        progress=self.settings.verbose,
                        checkpoint=self.checkpoint,
                        resume=resume,
                    )
                rows = torch.cat([outcome.model["rows"], _table(outcome.history)])
                record, stopped = {**outcome.model, "rows": rows}, outcome.ending == "interrupted"
            done = f"{len(record['rows'])} iterations of EM"
            if stopped:
                return record, f"it was interrupted after {done}."
            resume = False
        record, _ = self.learn_weights(record, tied=False)
        return {**record, **under("best.", record)}, f"all {rounds} rounds are over, {done}."

    def _tag_shares(self, tags: Float[Tensor, "w a"]) -> Float[Tensor, "w a"]:
        shape = self.shape
        return tag_shares_of_words(tags, None if shape.ends else shape.index.separator)


def _derived(train: list[TokenBatch]) -> list[TokenBatch]:
    """The batches with derivations, or all where none has any.

    Without one, preterminals are known too badly to say what levels that see them are worth.
    """
    return [batch for batch in train if batch.derived] or train


def topic_prior(documents: Float[Tensor, "d h"]) -> Figures:
    """The shares of topics in the training text, no topic left out altogether."""
    shares = documents.double().mean(dim=0).cpu().numpy() + 1e-6
    return np.asarray(shares / shares.sum())


def _table(history: Iterable[Row]) -> Float[Tensor, "k 3"]:
    rows = [[row.iteration, row.value, row.seconds] for row in history]
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, 3)


def rows_of(table: Iterable[Sequence[float]]) -> tuple[Row, ...]:
    """The history of EM whose iterations, values and seconds these are."""
    return tuple(Row(int(i), value, float("nan"), 1.0, int(i), s) for i, value, s in table)
