"""How a neural chain CRF is made and trained: sentences, network, likelihood.

The scores of labels are those of an encoder plus those of the sentence's own features; transitions
are a `ChainCRF`'s.  So the potentials are those of any chain, and so are inference and loss.

Training is that of all others, descent along one flat vector, with Adam over minibatches of about
equally long sentences.  What is random, the order and the dropout, depends on the seed and the
number of the step alone.

Letters in shapes: b: sentences; n: positions of the longest; c: characters; k: tokens, sentences
end to end; z: attributes of tokens; a: attributes known; d: dense columns; s: labels; p: all
parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from mrflearn.errors import DataError, SettingsError
from mrflearn.execution.resources import moved
from mrflearn.features.features import (
    UNKNOWN,
    CompiledFeatures,
    CompiledLabels,
    Numbering,
    compile_features,
)
from mrflearn.features.index import edge_names
from mrflearn.features.word_numbers import UNSEEN, NumberedWords, WordNumbers
from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_sums import Steps
from mrflearn.models.loglinear import ChainPotentials, LabelChain
from mrflearn.nn.batches import with_ends
from mrflearn.nn.chain import ChainCRF
from mrflearn.objectives.base import Evaluation, Layout, Objective, Vector

TOKENS_AT_ONCE = 8_192  # of sentences that are only read; bounds memory, changes no result
POOL = 50  # minibatches whose sentences are sorted by length together

# Sentences by number, some of them at a time as a network takes them.


@final
@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Some sentences, padded; `places` are those of their tokens among all positions.

    Attributes of tokens and their values stand end to end, `begins` is where those of each token
    begin; None where there are no features.  `gold` are the labels, -1 where `allowed` says more.
    """

    lengths: tuple[int, ...]
    words: Int64[Tensor, "b n"]
    characters: Int64[Tensor, "b n c"]
    places: Int64[Tensor, " k"]
    steps: Steps
    attributes: Int64[Tensor, " z"] | None
    begins: Int64[Tensor, " k"] | None
    values: Float[Tensor, " z"] | None
    dense: Float[Tensor, "k d"] | None
    gold: Int64[Tensor, " k"] | None = None
    allowed: Bool[Tensor, "k s"] | None = None


@final
@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences by number: their words, features where there are any, and labels if known."""

    words: NumberedWords
    features: CompiledFeatures | None
    labels: CompiledLabels | None = None

    @property
    def lengths(self) -> Int64[Tensor, " b"]:
        """How many tokens each sentence has."""
        return self.words.lengths

    @cached_property
    def begins(self) -> Int64[Tensor, " b"]:
        """Where each sentence begins among all tokens."""
        return self.lengths.cumsum(0) - self.lengths

    def tokens(self, chosen: Int64[Tensor, " n"]) -> Int64[Tensor, " k"]:
        """The tokens of these sentences, one sentence after the other."""
        lengths = self.lengths[chosen]
        shift = self.begins[chosen] - (lengths.cumsum(0) - lengths)
        return torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)

    def batch(self, chosen: Int64[Tensor, " n"]) -> SentenceBatch:
        """These sentences, none of which is empty."""
        tokens, lengths = self.tokens(chosen), self.lengths[chosen]
        longest = int(lengths.max())
        first = lengths.cumsum(0) - lengths
        row = torch.arange(len(chosen)).repeat_interleave(lengths)
        places = torch.arange(len(tokens)) + (row * longest - first[row])
        types = self.words.tokens[tokens]
        width = self.words.characters.shape[1]
        words = torch.zeros(len(chosen) * longest, dtype=torch.int64)
        characters = torch.zeros(len(chosen) * longest, width, dtype=torch.int64)
        words[places] = self.words.words[types]
        characters[places] = self.words.characters[types]
        features = None if self.features is None else self.features.taken(tokens)
        batch = SentenceBatch(
            tuple(lengths.tolist()),
            words.view(len(chosen), longest),
            characters.view(len(chosen), longest, width),
            places,
            Steps.of(lengths),
            None if features is None else features.attributes.long(),
            None if features is None else torch.cat([places.new_zeros(1), features.ends])[:-1],
            None if features is None else features.values,
            None if features is None else features.dense,
        )
        if self.labels is None:
            return batch
        labels = self.labels.taken(tokens)
        allowed = labels.allowed_states() if len(labels.uncertain) else None
        return replace(batch, gold=labels.states, allowed=allowed)

    def taken(self, chosen: Int64[Tensor, " n"]) -> Sentences:
        """These sentences alone."""
        tokens, lengths = self.tokens(chosen), self.lengths[chosen]
        features = None if self.features is None else self.features.taken(tokens)
        return Sentences(
            replace(self.words, lengths=lengths, tokens=self.words.tokens[tokens]),
            None if features is None else replace(features, lengths=lengths),
            None if self.labels is None else self.labels.taken(tokens),
        )

    def parts(self) -> list[Int64[Tensor, " n"]]:
        """The sentences that are not empty, longest first, a bounded number of them at a time."""
        order = self.lengths.argsort(descending=True, stable=True)
        order = order[self.lengths[order] > 0]
        found = []
        while len(order):
            count = max(1, TOKENS_AT_ONCE // int(self.lengths[order[0]]))
            found.append(order[:count])
            order = order[count:]
        return found


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """How sentences become numbers: the words, characters and features that training has seen.

    `attributes` and the dense `columns` are None where words alone are looked at.
    """

    words: WordNumbers
    attributes: Numbering | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, words: WordNumbers, items: Iterable[Any] | None, min_freq: float
    ) -> tuple[Reading, CompiledFeatures | None]:
        """The reading of training sentences, and the features of their items."""
        if items is None:
            return cls(words), None
        features = compile_features(items)
        if bool(edge_names(features.names).any()):
            raise SettingsError(
                "features marked by `edge` belong to transitions, and those of a NeuralCRF have "
                "no features; `CRF` takes them."
            )
        values = None if features.values is None else features.values.double()
        sums = torch.bincount(features.attributes, values, minlength=len(features.names))
        if min_freq > 0:
            kept = sums >= min_freq
            names = Numbering(compress(features.names, kept.tolist()), closed=True)
            number = torch.where(kept, kept.cumsum(0) - 1, UNKNOWN)
            features = features.renumbered(number, names)
        return cls(words, features.names, features.columns), features

    def __call__(self, words: Sequence[Sequence[str]], items: Iterable[Any] | None) -> Sentences:
        """New sentences by number."""
        features = None
        if items is not None and self.attributes is not None:
            features = compile_features(items, self.attributes, self.columns)
        return Sentences(self.words(words), features)


# The network: an encoder, weights of features, and a chain of labels.


@final
class TaggingNetwork(nn.Module):
    """Potentials of chains of labels: an encoder's scores, those of features, and transitions.

    `seldom[word]` is the chance of a word to be read as an unseen one in training.
    """

    seldom: Float[Tensor, " w"] | None

    def __init__(
        self,
        encoder: nn.Module,
        labels: int,
        attributes: int,
        columns: int,
        feature_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.chain_crf = ChainCRF(labels, batch_first=True)
        self.state = nn.Parameter(torch.zeros(attributes, labels)) if attributes else None
        self.dense = nn.Parameter(torch.zeros(columns, labels)) if columns else None
        self.feature_dropout = feature_dropout
        self.chain = LabelChain.plain(labels)
        self.register_buffer("seldom", None, persistent=False)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.chain_crf.transitions.device

    def scores(self, batch: SentenceBatch) -> Float[Tensor, "k s"]:
        """The scores of every label at every token, sentence after sentence."""
        words = batch.words
        if self.training and self.seldom is not None:
            lost = torch.rand(words.shape, device=words.device) < self.seldom[words]
            words = words.masked_fill(lost, UNSEEN)
        found: Tensor = self.encoder(words, batch.characters, torch.tensor(batch.lengths))
        wanted = (*words.shape, self.chain.labels)
        if found.shape != wanted:
            raise SettingsError(
                f"the encoder gave scores of shape {tuple(found.shape)}; {len(words)} sentences of "
                f"up to {words.shape[1]} words and {self.chain.labels} labels need {wanted}."
            )
        return found.flatten(0, 1)[batch.places] + self._of_features(batch, found)

    def _of_features(self, batch: SentenceBatch, like: Tensor) -> Tensor | float:
        found: Tensor | float = 0.0
        if self.state is not None and batch.attributes is not None:
            values = None if batch.values is None else batch.values.to(like)
            if self.training and self.feature_dropout:
                kept = torch.rand(len(batch.attributes), device=like.device) >= self.feature_dropout
                kept = kept.to(like.dtype) / (1 - self.feature_dropout)
                values = kept if values is None else values * kept
            found = embedding_bag(
                batch.attributes, self.state, batch.begins, mode="sum", per_sample_weights=values
            )
        if self.dense is not None and batch.dense is not None:
            found = found + batch.dense.to(like) @ self.dense
        return found

    def potentials(self, scores: Float[Tensor, "k s"], steps: Steps) -> ChainPotentials:
        """The chains with these scores of tokens, which stand sentence after sentence."""
        crf = self.chain_crf
        unary = with_ends(steps.pack(scores), steps, crf.start_transitions, crf.end_transitions)
        return ChainPotentials(unary, crf.transitions, steps, self.chain)

    def loss(self, batch: SentenceBatch) -> Float[Tensor, ""]:
        """-log p(labels | sentence) in nats, summed over the sentences."""
        assert batch.gold is not None  # noqa: S101 - training has labels
        chains = self.potentials(self.scores(batch), batch.steps)
        if batch.allowed is None:
            path = batch.steps.pack(batch.gold)
            return chain_sums.log_partition(*chains.scores, path).sum()
        unary = chains.unary.masked_fill(~batch.steps.pack(batch.allowed), -torch.inf)
        known = chain_sums.log_partition(unary, chains.table, batch.steps)
        return (chain_sums.log_partition(*chains.scores) - known).sum()

    @torch.no_grad()
    def chains(self, sentences: Sentences) -> ChainPotentials:
        """The potentials of sentences, as a fitted network has them."""
        self.eval()
        device, kind = self.device, self.chain_crf.transitions.dtype
        scores = torch.zeros(
            len(sentences.words.tokens), self.chain.labels, dtype=kind, device=device
        )
        for chosen in sentences.parts():
            own = moved(sentences.batch(chosen), device)
            scores[sentences.tokens(chosen).to(device)] = self.scores(own)
        found = self.potentials(scores, Steps.of(sentences.lengths).to(device))
        return replace(found, table=found.table.detach())


# The likelihood of a network as a function of one flat vector, over minibatches.


@final
class NetworkLikelihood(Objective[TaggingNetwork]):
    """-log p(labels | sentence) of all sentences; a part is a minibatch of about equal lengths.

    Which sentences a minibatch has changes from epoch to epoch; that and the dropout follow from
    `seed` and the number of minibatches taken so far.
    """

    random = True

    def __init__(
        self, network: TaggingNetwork, sentences: Sentences, batch_size: int, seed: int
    ) -> None:
        if batch_size < 1:
            raise SettingsError(f"batch_size must be >= 1; got {batch_size}.")
        self.model, self.sentences, self.seed = network, sentences, seed
        self.batch_size, self.taken = batch_size, 0
        self.filled = (sentences.lengths > 0).nonzero().squeeze(1)
        if not len(self.filled):
            raise DataError("there are no words in these sentences. Is the file empty?")
        self.batches: list[Int64[Tensor, " n"]] = []

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(dict(self.model.named_parameters()))

    @property
    def start(self) -> Vector:
        return self.layout.flatten(dict(self.model.named_parameters())).detach()

    @property
    def parts(self) -> int:
        return -(-len(self.filled) // self.batch_size)

    def at(self, vector: Vector) -> TaggingNetwork:
        """The network itself, with the parameters of the vector."""
        pieces = self.layout.unflatten(vector.detach())
        with torch.no_grad():
            for name, own in self.model.named_parameters():
                own.copy_(pieces[name])
        network: TaggingNetwork = self.model.eval()
        return network

    def part(self, index: int, vector: Vector) -> Evaluation:
        if not self.batches or self.taken % self.parts == 0:
            self.batches = self._shuffled(self.taken // self.parts)
        network = self.at(vector).train()
        batch = moved(self.sentences.batch(self.batches[index]), vector.device)
        on_gpu = [vector.device] if vector.is_cuda else []
        with torch.random.fork_rng(devices=on_gpu), torch.enable_grad():
            torch.manual_seed(self._number(1, self.taken))
            loss = network.loss(batch)
            weights = list(network.parameters())
            gradients = torch.autograd.grad(loss, weights, materialize_grads=True)
        self.taken += 1
        return Evaluation(loss.detach(), torch.cat([own.reshape(-1) for own in gradients]))

    def state(self) -> dict[str, Tensor]:
        return {"taken": torch.tensor([self.taken], dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.taken, self.batches = int(state["taken"]), []
        if self.taken % self.parts:
            self.batches = self._shuffled(self.taken // self.parts)

    def _number(self, *place: int) -> int:
        """A seed for this place alone."""
        return int(np.random.SeedSequence([self.seed, *place]).generate_state(1)[0])

    def _shuffled(self, epoch: int) -> list[Int64[Tensor, " n"]]:
        """The minibatches of an epoch: neighbours by length among sentences drawn at random."""
        draw = np.random.default_rng(self._number(0, epoch))
        order = self.filled[torch.from_numpy(draw.permutation(len(self.filled)))]
        pools = order.split(POOL * self.batch_size)
        ranked = [pool[self.sentences.lengths[pool].argsort(stable=True)] for pool in pools]
        return [own for pool in ranked for own in pool.split(self.batch_size)]
