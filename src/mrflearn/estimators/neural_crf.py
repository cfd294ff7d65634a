"""`NeuralCRF`: a linear-chain CRF whose scores come from a neural encoder and from features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from mrflearn.errors import DataError, NotFittedError, SettingsError
from mrflearn.estimators.base import Parts, load
from mrflearn.estimators.crf_answers import SEQUENCES_AT_ONCE, ChainAnswers, held_out_score
from mrflearn.estimators.crf_training import FeatureLabeller, packed, unpacked
from mrflearn.estimators.labelling import HeldOut, check_label, pair_of
from mrflearn.estimators.neural_training import (
    NetworkLikelihood,
    Reading,
    Sentences,
    TaggingNetwork,
)
from mrflearn.estimators.word_vectors import WordVectors
from mrflearn.execution.resources import choose_device, choose_dtype
from mrflearn.features.features import Numbering, compile_labels, warn_of_single_label
from mrflearn.features.recipes import Recipe, find_function, function_name
from mrflearn.features.word_numbers import WordNumbers, word_form
from mrflearn.io.corpus import SEPARATOR
from mrflearn.io.corpus import UNKNOWN as UNKNOWN_WORD
from mrflearn.io.files import PathLike
from mrflearn.models.loglinear import ChainPotentials
from mrflearn.models.storage import figure, texts
from mrflearn.nn.word_encoder import WordEncoder
from mrflearn.objectives.base import under
from mrflearn.objectives.problem import Penalty
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Callback, EarlyStopping, Outcome
from mrflearn.training.sgd import Adam

MakeEncoder = Callable[..., nn.Module]  # from the numbers of words, characters and labels
LONGEST_GRADIENT = 5.0  # for each sentence of a minibatch
EPOCHS_AVERAGED = 2.0  # of whose iterates the answer is about the mean
WEIGHTS = ("state", "dense")  # of features, which have a penalty
VECTOR_SIZE = 0.3  # the root mean square of the entries of given vectors


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralCRF(FeatureLabeller, ChainAnswers):
    """A linear-chain CRF under a neural encoder: words in, labels out.

    By default the encoder reads characters by a convolution, words by embeddings, and the sentence
    both ways by an LSTM; features, where there are any, add their weights to its scores.  Training
    is exact maximum likelihood by Adam.

    Parameters
    ----------
    encoder
        What scores labels; None: `mrflearn.nn.WordEncoder` with the settings below.  Else the name
        of a function, as `"my_encoders:small"`, from the numbers of words, characters and labels to
        a torch module; in Python also the function itself.  The module is called with words
        (b n), characters (b n c) and lengths, and gives scores (b n labels).
    vocabulary
        The words to know; None: those of the training sentences and of `vectors`.
    vectors
        Word vectors to start from: the directory of a saved model; in Python also a fitted
        `WordVectors`.
    features
        As in `CRF`; None: there are none, and words alone are looked at.
    dims
        Dimensions of the embedding of a word; those of `vectors` where these are given.
    char_dims
        Dimensions of the embedding of a character; 0: characters are not looked at.
    char_filters
        Filters over the characters of a word.
    hidden
        States of the LSTM in each direction.
    layers
        LSTMs on top of each other.
    dropout
        The share of numbers dropped in training, before and after the parts of the encoder.
    word_dropout
        A word seen k times is read as an unseen one with the chance a / (a + k) in training, a
        being this number.
    feature_dropout
        The share of features dropped in training.
    min_count
        Words seen less often are read as unseen ones.
    min_freq
        The least sum of values at which a feature is kept.
    c2
        Strength of the L2 regularisation of the weights of features.
    learning_rate
        The rate of Adam.
    batch_size
        Sentences per step.
    max_iterations
        The most epochs: passes over all sentences.
    held_out
        The share of the training sentences that is held out to stop by, where there is no
        validation set; 0: none is, and all epochs are run.
    patience
        Stop after this many epochs without a better score on the held-out sentences.
    callbacks
        Called after each epoch; see `mrflearn.training`.
    dtype : {"float32", "float64"}
        Type of numbers to compute with.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    random_state
        The seed of the first weights, of batches, dropout, held-out sentences and samples.
    verbose
        Whether to report progress on standard error.

    Attributes
    ----------
    classes_
        The labels, in the order of their first appearance.
    words_
        The words that are known, in lower case and with 0 for every digit.
    attributes_
        The attributes of `features` that have weights.
    network_
        The torch module that was learned.
    outcome_
        How training went.
    temperature_
        What scores are divided by; 1 before `calibrate`.

    """

    encoder: str | MakeEncoder | None = field(default=None, kw_only=False)
    vocabulary: Sequence[str] | None = None
    vectors: WordVectors | Path | str | None = None
    dims: int = 100
    char_dims: int = 30
    char_filters: int = 50
    hidden: int = 200
    layers: int = 1
    dropout: float = 0.5
    word_dropout: float = 0.25
    feature_dropout: float = 0.3
    min_count: int = 1
    min_freq: float = 0.0
    c2: float = 1.0
    learning_rate: float = 0.002
    batch_size: int = 32
    max_iterations: int = 30
    held_out: float = 0.1
    patience: int = 5
    callbacks: Sequence[Callback | EarlyStopping] = ()
    dtype: str = "float32"
    device: str = "cpu"
    verbose: bool = False

    _network: TaggingNetwork | dict[str, Tensor] = field(init=False)
    reading_: Reading = field(init=False)
    outcome_: Outcome[TaggingNetwork] = field(init=False)

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        *,
        validation: HeldOut | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sentences and their labels.

        Parameters
        ----------
        X
            Sentences, each a list of words, or of rows of cells whose first one is the word.
        y
            Their labels; None in place of a label is unknown, a set is any of these.
        validation
            Held-out (X, y): the weights with the best chunk F1 (or accuracy) on it are kept.
        checkpoint
            A file that training is saved to every minute.
        resume
            Whether to continue from the checkpoint, to the same weights as without a stop.

        Returns
        -------
        the fitted CRF itself

        """
        self._check_settings()
        device, kind = choose_device(self.device), choose_dtype(self.dtype)
        sentences, known, vectors = list(X), list(y), self._vectors()
        words, items = self._prepared(sentences)
        if self.vocabulary is None:
            numbers = WordNumbers.of(words, self.min_count, vectors)
        else:
            numbers = WordNumbers.of(
                words, 1 + sum(map(len, words)), map(word_form, self.vocabulary)
            )
        self.reading_, features = Reading.of(numbers, items, self.min_freq)
        numbered = numbers(words)
        labels = compile_labels(known, numbered.lengths, Numbering())
        if not len(labels.names):
            raise DataError("there is nothing to learn from: no sequence has a label.")
        warn_of_single_label(labels.names)
        self.labels_, self.temperature_ = Numbering(labels.names, closed=True), 1.0

        apart = [] if validation is not None else self._held_out(known)
        held_out = [sentences[i] for i in apart], [known[i] for i in apart]
        if validation is not None:
            own, gold = pair_of(validation)
            held_out = list(own), [list(tags) for tags in gold]
        learned = torch.tensor(sorted({*range(len(known))}.difference(apart)))
        taken = Sentences(numbered, features, labels).taken(learned)
        network = self._started(taken, vectors).to(device, kind)
        objective = NetworkLikelihood(network, taken, self.batch_size, self.random_state)
        dropped = self.dropout, self.feature_dropout
        penalised = [name for name in WEIGHTS if name in objective.layout.names]
        self.outcome_ = minimise(
            objective,
            Adam(
                rate=self.learning_rate,
                epochs=self.max_iterations,
                average_from=1,
                average_over=max(1, round(EPOCHS_AVERAGED * objective.parts)),
                longest=LONGEST_GRADIENT * self.batch_size,
            ),
            penalty=Penalty(l2=dict.fromkeys(penalised, self.c2)),
            callbacks=[*self.callbacks, *self._watchers(*held_out)],
            progress=self.verbose,
            checkpoint=checkpoint,
            resume=resume,
            data=(objective.start, taken, held_out, network.seldom, dropped, self.batch_size),
            seed=self.random_state,
        )
        self._network = self.outcome_.model
        self._network.seldom = None  # nothing is dropped any more
        return self

    @property
    def network_(self) -> TaggingNetwork:
        """The torch module that was learned."""
        if isinstance(self._network, dict):  # the encoder is imported now, not by loading
            self._network = self._built(self._network)
        return self._network

    @property
    def words_(self) -> list[str]:
        """The words that are known, in lower case and with 0 for every digit."""
        return list(self.reading_.words.words)

    @property
    def attributes_(self) -> list[str]:
        """The attributes that have weights, dense columns last; none without `features`."""
        return [*(self.reading_.attributes or ()), *(self.reading_.columns or ())]

    def top_features(self, label: str | None = None, n: int = 20) -> list[tuple[str, str, float]]:
        """The weights of features that are largest in absolute value.

        Parameters
        ----------
        label
            Weights of this label; None: of all.
        n
            How many.

        Returns
        -------
        list of (attribute, label, weight)

        """
        network, labels = self._fitted(), self.classes_
        check_label(label, labels)
        tables = [own.detach().cpu() for own in (network.state, network.dense) if own is not None]
        if not tables:
            return []
        shown = range(len(labels)) if label is None else [self.labels_[label]]
        own, names = torch.cat(tables)[:, list(shown)].flatten(), self.attributes_
        best = own.abs().sort(descending=True, stable=True).indices[:n].tolist()
        places = [(place, *divmod(place, len(shown))) for place in best]
        return [(names[i], labels[shown[k]], float(own[place])) for place, i, k in places]

    def top_transitions(self, n: int = 20) -> list[tuple[tuple[str, ...], float]]:
        """The (labels, score) of the n scores of transitions that are largest in absolute value."""
        scores = self._fitted().chain_crf.transitions.flatten().tolist()
        found: list[tuple[tuple[str, ...], float]] = []
        found += zip(product(self.classes_, repeat=2), scores, strict=True)
        return sorted(found, key=lambda pair: (-abs(pair[1]), pair[0]))[:n]

    def _prepared(self, sentences: Sequence[Any]) -> tuple[list[list[str]], list[Any] | None]:
        """The words of what `fit` was given, and their items if there are features."""
        recipe = Recipe.made_by("words" if self.features is None else self.features)
        for sentence in sentences:
            recipe = recipe.for_files(sentence)
        self.recipe_ = recipe
        return self._words(sentences), self._items(sentences)

    def _words(self, sentences: Iterable[Any]) -> list[list[str]]:
        """The words of sentences; `DataError` where there are others, or cells nobody looks at."""
        found = []
        for number, sentence in enumerate(sentences):
            if isinstance(sentence, str):
                raise DataError(f"a sentence is a list of words, not the text {sentence!r:.40}.")
            found.append(words := self.recipe_.words(sentence))
            for place, (token, word) in enumerate(zip(sentence, words, strict=True)):
                if not isinstance(word, str):
                    raise DataError(
                        f"sequence {number}, token {place}: {word!r:.40} is no word. A sentence is "
                        "a list of words, or of rows of cells whose first one is the word."
                    )
                if self.features is None and token is not word and len(token) > 1:
                    raise DataError(
                        f"sequence {number} has cells beside its words, and nothing looks at "
                        "them: give features='words', or the words alone."
                    )
        return found

    def _items(self, X: Iterable[Any]) -> Any:
        return None if self.features is None else list(super()._items(X))

    def _read(self, sentences: Sequence[Any]) -> Sentences:
        """Sentences by number, as the fitted model reads them."""
        return self.reading_(self._words(sentences), self._items(sentences))

    def _held_out(self, y: Sequence[Any]) -> list[int]:
        """Sentences of known labels to stop by, drawn at random."""
        known = [i for i, own in enumerate(y) if own and all(isinstance(tag, str) for tag in own)]
        draw = np.random.default_rng(self.random_state).permutation(known)
        return [int(i) for i in draw[: int(self.held_out * len(y))]]

    def _watchers(self, X: Sequence[Any], y: Sequence[Any]) -> list[EarlyStopping]:
        """What stops training when the score on these sentences is no longer better."""
        if not len(X):
            return []
        own = self._read(X)
        rated = held_out_score(y, own.lengths, self.labels_, lambda model: [model.chains(own)])
        return [EarlyStopping(rated, patience=self.patience)]

    def _vectors(self) -> dict[str, Tensor]:
        """The given vectors by the forms of their words, the most frequent word of each form."""
        if self.vectors is None:
            return {}
        given = self.vectors if isinstance(self.vectors, WordVectors) else load(self.vectors)
        try:
            words, values = given.vocabulary_.words, torch.from_numpy(given.vectors_).float()
        except (AttributeError, NotFittedError) as error:
            raise SettingsError(
                "vectors must be a fitted WordVectors, or the directory of a saved one (which "
                f"copies of this estimator keep fitted); got {given!r:.60}."
            ) from error
        values = values * (VECTOR_SIZE / values.square().mean().sqrt().clamp_min(1e-12))
        found: dict[str, Tensor] = {}
        for word, value in zip(words, values, strict=True):
            if word not in (SEPARATOR, UNKNOWN_WORD):
                found.setdefault(word_form(word), value)
        return found

    def _started(self, sentences: Sentences, vectors: dict[str, Tensor]) -> TaggingNetwork:
        """The network that training begins with."""
        dims = len(next(iter(vectors.values()))) if vectors else self.dims
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            network = self._blank(dims)
        numbers = self.reading_.words
        if vectors:
            if not isinstance(network.encoder, WordEncoder):
                raise SettingsError("vectors start the built-in encoder; leave out one of the two.")
            with torch.no_grad():
                for word, number in numbers.word_number.items():
                    if word in vectors:
                        network.encoder.word.weight[number] = vectors[word]
        if self.word_dropout:
            met = sentences.words.words[sentences.words.tokens]
            counts = torch.bincount(met, minlength=numbers.sizes[0])
            network.seldom = self.word_dropout / (self.word_dropout + counts)
        return network

    def _blank(self, dims: int) -> TaggingNetwork:
        """A network of the right sizes, as torch starts it."""
        reading, labels = self.reading_, len(self.labels_)
        words, characters = reading.words.sizes
        if self.encoder is None:
            encoder: Any = WordEncoder(
                words,
                characters,
                labels,
                dims=dims,
                char_dims=self.char_dims,
                char_filters=self.char_filters,
                hidden=self.hidden,
                layers=self.layers,
                dropout=self.dropout,
            )
        else:
            make: Any = self.encoder
            if isinstance(make, str):
                make = find_function(make, "encoder")
            encoder = make(words, characters, labels)
            if not isinstance(encoder, nn.Module):
                raise SettingsError(
                    "encoder makes a torch module from the numbers of words, characters and "
                    f"labels, not {encoder!r:.60}."
                )
        attributes, columns = len(reading.attributes or ()), len(reading.columns or ())
        return TaggingNetwork(encoder, labels, attributes, columns, self.feature_dropout)

    def _fitted(self) -> TaggingNetwork:
        return self.network_

    def _potentials(self, X: Iterable[Any], *, whole: bool = False) -> Iterator[ChainPotentials]:
        network, stream = self._fitted(), iter(X)
        if whole:
            yield network.chains(self._read(list(stream)))
            return
        while part := list(islice(stream, SEQUENCES_AT_ONCE)):
            yield network.chains(self._read(part))

    def _learned_parts(self) -> Parts:
        network, reading = self._fitted(), self.reading_
        learned = {
            "labels": list(self.labels_),
            "characters": list(reading.words.characters),
            "columns": None if reading.columns is None else list(reading.columns),
            "temperature": self.temperature_,
            **self._recipe_parts(),
            **self._training_parts(),
        }
        tensors: dict[str, Tensor] = {
            f"network.{name}": own for name, own in network.state_dict().items()
        }
        tensors["words"], tensors["word_ends"] = packed(reading.words.words)
        if reading.attributes is not None:
            tensors["attributes"], tensors["attribute_ends"] = packed(reading.attributes)
        return learned, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._check_settings()
        words = tuple(unpacked(tensors["words"], tensors["word_ends"]))
        numbers = WordNumbers(words, texts(learned, "characters"))
        self.reading_ = Reading(numbers)
        self._restore_recipe(learned)
        if learned["columns"] is None:
            self.features = None
        else:
            names = unpacked(tensors["attributes"], tensors["attribute_ends"])
            columns = texts(learned, "columns")
            self.reading_ = Reading(numbers, Numbering(names, closed=True), columns)
        self.labels_ = Numbering(texts(learned, "labels"), closed=True)
        self.temperature_ = figure(learned["temperature"])
        state = under("network.", tensors)
        self._network = state if self.encoder is not None else self._built(state)
        self._restore_training(None if self.encoder is not None else self._network, learned)

    def _built(self, state: dict[str, Tensor]) -> TaggingNetwork:
        """The network that a model file holds."""
        given = state.get("encoder.word.weight") if self.encoder is None else None
        network = self._blank(self.dims if given is None else given.shape[1])
        network.load_state_dict(state)
        device = choose_device(self.device)
        return network.to(device, choose_dtype(self.dtype)).eval()

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        # Words and the numbers that training made of vectors are among what was learned.
        del own["callbacks"], own["vocabulary"], own["vectors"]
        if self.encoder is not None and not isinstance(self.encoder, str):
            own["encoder"] = function_name(self.encoder, "encoder")
        return own

    def _check_settings(self) -> None:
        least = {"dims": 1, "char_dims": 0, "char_filters": 1, "hidden": 1, "layers": 1}
        least |= {"max_iterations": 1, "batch_size": 1, "word_dropout": 0}
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise SettingsError(f"{name} must be >= {bound}; got {getattr(self, name)}.")
        for name in ("dropout", "feature_dropout", "held_out"):
            if not 0 <= (share := getattr(self, name)) < 1:
                raise SettingsError(f"{name} must be a share from 0 to below 1; got {share}.")
        if not self.learning_rate > 0:
            raise SettingsError(f"learning_rate must be > 0; got {self.learning_rate}.")
