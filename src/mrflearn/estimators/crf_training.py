"""What all CRFs share: settings, training, storage, choice of an estimator.

The rules follow measured trade-offs (docs/start/crf-estimators.md): exact likelihood is best where
graphs have no loops, and quick unless every transition has a large table of its own; pieces come
close to it, and are best on loops; their pseudolikelihood costs the states of one label at a time.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Choice, Estimator, Parts
from mrflearn.execution.executor import Executor
from mrflearn.execution.held import Held
from mrflearn.execution.resources import Threads, count_cores
from mrflearn.features.features import CompiledFeatures, Numbering
from mrflearn.features.index import BIAS, FactorTemplate, cells_of
from mrflearn.features.recipes import Features, Recipe
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.held_chains import HeldBatch, NumberedBatch
from mrflearn.models.loglinear import (
    NUMBERS_IN_TABLES,
    SHARES,
    ChainBatch,
    FieldPlans,
    LogLinearField,
)
from mrflearn.models.storage import record, texts
from mrflearn.objectives.base import Layout, Objective, Reparametrised, Sum
from mrflearn.objectives.chain_likelihood import (
    NUMBERS_IN_BLOCK,
    ChainObjective,
    make_shards,
    perceptron,
)
from mrflearn.objectives.distributed import Distributed, hold_batch
from mrflearn.objectives.field_objectives import (
    Criterion,
    Principle,
    field_objective,
    natural_pieces,
)
from mrflearn.objectives.problem import Penalty
from mrflearn.objectives.reweighted import with_shares
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import Optimiser, minimise
from mrflearn.training.outcome import Callback, EarlyStopping, Outcome
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.sgd import AROW, SGD, PassiveAggressive

# How CRFs are trained: CRFsuite's algorithms by their names and settings.


# How long each runs where max_iterations is None: CRFsuite's own limits.
LIMITS = {"lbfgs": 1_000_000_000, "l2sgd": 1000, "ap": 100, "pa": 100, "arow": 100}
ONLINE = ("ap", "pa", "arow")  # follow the errors of best labellings, without a penalty
NOT_CONVERGED = "In the last evaluation belief propagation did not converge on every graph."
Batch = FieldBatch | ChainBatch | HeldBatch
Wanted = Criterion | Literal["auto"]


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureLabeller(Estimator):
    """A labeller that keeps the recipe by which items are made of what it is given."""

    features: Features | None = None

    recipe_: Recipe = field(init=False)  # only where there are `features`

    def _extracted(self, X: Iterable[Any], layers: int = 1) -> Iterable[Any]:
        """The items of what `fit` was given, by `features`; the recipe is kept.

        No layers of labels: what is given is a graph, and stands in files of its own.
        """
        if self.features is None:
            self.__dict__.pop("recipe_", None)
            return X
        self.recipe_ = Recipe.made_by(self.features)
        if not layers and self.recipe_.function is None:
            raise SettingsError("features of graphs are made by a function, or 'module:function'.")
        return X if isinstance(X, CompiledFeatures) else self._noted(X, layers)

    def _noted(self, X: Iterable[Any], layers: int) -> Iterator[Any]:
        for sentence in X:
            if layers:
                self.recipe_ = self.recipe_.for_files(sentence, layers)
            yield self.recipe_(sentence)

    def _items(self, X: Iterable[Any]) -> Iterable[Any]:
        """The items of what a fitted model is asked about."""
        recipe: Recipe | None = getattr(self, "recipe_", None)
        return X if recipe is None or isinstance(X, CompiledFeatures) else map(recipe, X)

    def _recipe_parts(self) -> dict[str, Any]:
        """The recipe as plain values."""
        recipe: Recipe | None = getattr(self, "recipe_", None)
        if recipe is not None and self.features is not None:
            recipe = replace(recipe, function=Recipe.made_by(self.features).function)
        return {"recipe": None if recipe is None else recipe.settings()}

    def _restore_recipe(self, learned: Mapping[str, Any]) -> None:
        """Takes back what `_recipe_parts` gave."""
        if learned.get("recipe") is not None:
            self.features = self.recipe_ = record(Recipe, learned["recipe"])

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        del own["features"]  # the recipe is among what was learned
        return own


@dataclass(kw_only=True, eq=False, repr=False)  # scikit-learn compares and shows estimators
class LogLinearLabeller(FeatureLabeller):
    """A log-linear field that labels, whatever its graphs are: how it is trained.

    An estimator turns what its users have into a batch; `CRF` and `GraphCRF` document the settings.
    """

    algorithm: str = "lbfgs"
    min_freq: float = 0.0
    c1: float = 0.0
    c2: float = 1.0
    max_iterations: int | None = None
    num_memories: int = 6
    epsilon: float = 1e-5
    period: int = 10
    delta: float = 1e-5
    estimator: Wanted
    batch_size: int = 32
    callbacks: Sequence[Callback | EarlyStopping] = ()
    dtype: str = "float32"
    n_jobs: int | None = None
    random_state: int = 0
    verbose: bool = False
    # Settings that some CRFs have; no field of the others.
    calibration_eta, calibration_rate = 0.1, 2.0
    calibration_samples, calibration_candidates = 1000, 10
    pa_type, c, error_sensitive, averaging = 1, 1.0, True, True
    variance, gamma = 1.0, 1.0

    model_: LogLinearField = field(init=False)
    outcome_: Outcome[LogLinearField] = field(init=False)
    choice_: Choice[Criterion] = field(init=False)  # of estimator="auto": which, and why

    @abstractmethod
    def _choose(self, start: LogLinearField, batch: Any) -> Choice[Criterion]:
        """The estimator that suits a batch: what `estimator="auto"` takes."""

    def _learn(
        self,
        start: LogLinearField,
        batch: Batch,
        *,
        executor: Executor | None = None,
        tie: Int64[Tensor, " p"] | None = None,
        pull: bool = False,
        watchers: Sequence[Callback | EarlyStopping] = (),
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> None:
        """Trains the field, from the weights of `start`.

        With `tie`, weight i of all is free weight `tie[i]`.  With `pull` the penalty is on the
        distance from the weights training starts from, not on the weights themselves: new data
        moves them only as far as it has evidence [Chelba & Acero 2006].
        """
        choice = self._choose(start, batch) if self.estimator == "auto" else None
        estimator: Any = self.estimator if choice is None else choice.estimator
        pieces = getattr(self, "pieces", None) or natural_pieces(estimator)
        principle = Principle(estimator, pieces, getattr(self, "shares", "uniform"))
        self._check_algorithm(estimator)
        if principle.shares == "optimised":
            if tie is not None:
                raise SettingsError("shares='optimised' needs directed edges or factor graphs.")
            start = with_shares(start)
        if (executor or isinstance(batch, HeldBatch)) and self.algorithm != "lbfgs":
            raise SettingsError("an executor needs algorithm='lbfgs': SGD goes step by step.")
        seen = batch.seen if isinstance(batch, HeldBatch) else batch
        with Threads(count_cores(self.n_jobs)) as threads, ExitStack() as until:
            parts = batch.parts if isinstance(batch, HeldBatch) else None
            if executor is not None and not isinstance(batch, HeldBatch):
                parts = until.enter_context(hold_batch(batch, executor))
            whole = self._objective(start, batch, principle, threads, parts)
            origin = whole.start if pull else None

            def freed(given: Objective[LogLinearField]) -> Objective[LogLinearField]:
                if tie is not None:
                    return Reparametrised(given, _FreeWeights(given.model, tie), tie)
                return given if origin is None else Reparametrised(given, given.model, shift=origin)

            def in_double() -> Objective[LogLinearField]:
                doubled = {name: own.double() for name, own in start.parameters().items()}
                begin = start.with_parameters(doubled)
                return freed(self._objective(begin, batch, principle, threads, parts))

            free = freed(whole)
            penalised = [name for name in free.layout.names if name != SHARES]
            strengths = (0.0, 0.0) if self.algorithm in ONLINE else (self.c1, self.c2)
            outcome: Outcome[LogLinearField] = minimise(
                free,
                self._optimiser(whole, len(batch.sizes)),
                penalty=Penalty(*(dict.fromkeys(penalised, own) for own in strengths)),
                callbacks=[*self.callbacks, *watchers],
                progress=self.verbose,
                checkpoint=checkpoint,
                resume=resume,
                data=(start.templates, start.parameters(), seen, principle, tie, pull),
                seed=self.random_state,
                in_double=in_double if self.algorithm == "lbfgs" else None,
            )
        if not whole.converged:
            outcome = replace(outcome, reason=f"{outcome.reason} {NOT_CONVERGED}")
        self.outcome_, self.model_ = outcome, outcome.model
        self._keep_choice(choice)

    def _check_algorithm(self, estimator: str) -> None:
        if self.algorithm not in LIMITS:
            raise SettingsError(f"algorithm {self.algorithm!r} is not one of {', '.join(LIMITS)}.")
        if self.algorithm in ONLINE and estimator != "ml":
            raise SettingsError(
                f"algorithm='{self.algorithm}' follows errors of whole sequences and takes no "
                f"estimator='{estimator}'; try algorithm='lbfgs'."
            )
        if self.pa_type not in (0, 1, 2):
            raise SettingsError(f"pa_type={self.pa_type} is not 0, 1 or 2.")
        if self.algorithm != "lbfgs" and self.c1:
            raise SettingsError(f"c1={self.c1} (L1) needs algorithm='lbfgs'.")

    def _objective(
        self,
        start: LogLinearField,
        batch: Batch,
        principle: Principle,
        threads: Threads,
        parts: Held[NumberedBatch] | None,
    ) -> Objective[LogLinearField]:
        """What is minimised; of algorithms other than L-BFGS a sum over minibatches."""
        if parts is not None:
            return Distributed(start, principle, parts)
        assert not isinstance(batch, HeldBatch)  # noqa: S101 - it has parts
        if self.algorithm == "lbfgs":
            return field_objective(start, batch, principle, threads)
        if self.algorithm in ONLINE and isinstance(batch, FieldBatch):
            raise SettingsError(
                f"algorithm='{self.algorithm}' is for chains (`CRF`); try 'lbfgs' or 'l2sgd' here."
            )
        # Examples in a random order, so many at a time; empty ones in none.
        draw = np.random.default_rng(self.random_state)
        order = torch.from_numpy(draw.permutation(len(batch.sizes)))
        chosen = order[batch.sizes[order] > 0].split(self.batch_size)
        minibatches: Iterator[Any] = map(batch.examples, chosen)
        if self.algorithm not in ONLINE:
            return Sum([field_objective(start, part, principle, threads) for part in minibatches])
        loss = perceptron
        if self.algorithm != "ap":  # a margin of the number of wrong labels
            sensitive = torch.sqrt if self.error_sensitive else torch.sign
            loss = partial(loss, margin=sensitive if self.algorithm == "pa" else torch.positive)
        shards = (make_shards(start, part, 1) for part in minibatches)
        return Sum([ChainObjective(start, own, threads, loss) for own in shards])

    def _optimiser(self, objective: Objective[LogLinearField], examples: int) -> Optimiser[Any]:
        limit = LIMITS[self.algorithm] if self.max_iterations is None else self.max_iterations
        if self.algorithm == "ap":
            return SGD(rate=1.0, epochs=limit, average_from=1, period=self.period)
        enough = self.epsilon * examples
        if self.algorithm == "pa":
            average = 1 if self.averaging else None
            return PassiveAggressive(
                kind=self.pa_type, rate=self.c, epochs=limit, average_from=average, target=enough
            )
        if self.algorithm == "arow":
            # The losses of a batch are summed, and so is what each of them trades off.
            gamma = self.gamma * self.batch_size
            return AROW(rate=self.variance, gamma=gamma, epochs=limit, target=enough)
        if self.algorithm == "l2sgd":
            rate = self._calibrated_rate(objective)
            # CRFsuite's schedule 1 / (lambda (t0 + t)), lambda = 2 c2 / N, written in epochs.
            decay = 2 * self.c2 * rate
            return SGD(rate, limit, decay, period=self.period, delta=self.delta)
        return (OWLQN if self.c1 else LBFGS)(
            max_iterations=limit,
            tolerance=self.epsilon,
            history=self.num_memories,
            period=self.period,
            delta=self.delta,
        )

    def _calibrated_rate(self, objective: Objective[LogLinearField]) -> float:
        """The learning rate that lowers the loss of some batches most in one pass over them."""
        some = max(1, min(self.calibration_samples // self.batch_size, objective.parts))
        trials: dict[float, float] = {}
        rate, factor = self.calibration_eta, self.calibration_rate
        for _ in range(self.calibration_candidates):
            trials[rate] = _trial(objective, some, rate)
            # On past the best so far; when that gets worse, on the other side of the first.
            if trials[rate] > min(trials.values()):
                if factor <= 1:
                    break
                rate, factor = self.calibration_eta, 1 / factor
            rate *= factor
        return min(trials, key=trials.__getitem__)

    def _learned_parts(self) -> Parts:
        learned, tensors = stored(self._fitted())
        learned |= self._recipe_parts()
        return {**learned, **self._training_parts(), **self._state()}, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = restored(learned, tensors)
        self._restore_recipe(learned)
        self._restore_training(self.model_, learned, get_args(Criterion))
        self._restore_inputs(learned)

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What an estimator learned beside the field, as plain lists, dicts and strings."""

    @abstractmethod
    def _restore_inputs(self, state: dict[str, Any]) -> None:
        """Takes back what `_state` gave."""

    def _report(self, remark: str) -> None:
        if self.verbose:
            sys.stderr.write(remark + "\n")

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        del own["callbacks"]
        return own

    def _fitted(self) -> LogLinearField:
        return self.model_


def _trial(objective: Objective[Any], some: int, rate: float) -> float:
    """The loss of some minibatches after one pass over them at a learning rate."""
    vector = objective.start.clone()
    for k in range(some):
        vector.sub_(objective.part(k, vector).gradient, alpha=rate)
    loss = sum(float(objective.part(k, vector).value) for k in range(some))
    return loss if np.isfinite(loss) else np.inf


@dataclass(frozen=True, eq=False)
class _FreeWeights:
    """A field as its free weights: weight i of all is free weight `tie[i]`."""

    field: LogLinearField
    tie: Int64[Tensor, " p"]

    def parameters(self) -> dict[str, Tensor]:
        own = self.field.parameters()
        vector = Layout.of(own).flatten(own)
        free = vector.new_zeros(int(self.tie.max()) + 1)
        return {"weights": free.index_copy_(0, self.tie, vector)}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> LogLinearField:
        layout = Layout.of(self.field.parameters())
        return self.field.with_parameters(layout.unflatten(parameters["weights"][self.tie]))


def estimate_memory(model: LogLinearField, batch: ChainBatch, memories: int, cores: int) -> str:
    """In words, how large the problem is and how much memory training will take beside the data."""
    features, size, plans = batch.features, model.dtype.itemsize, model.plans
    labels, states = len(batch.labels.names), plans.chain.states
    weights = sum(part.numel() for part in model.parameters().values())
    values = 0 if features.values is None else 2 * features.values.nbytes
    blocks = 8 * cores * min(features.tokens * states, NUMBERS_IN_BLOCK)
    tables = (cores + 1) * plans.whole[0].weights.rows * labels
    if not plans.shared_table:
        tables += (cores + 1) * plans.whole[1].weights.rows * labels**2
        blocks += 4 * cores * min(features.tokens * labels**2, NUMBERS_IN_TABLES)
    numbers = (9 + 2 * memories) * weights + features.tokens * labels + blocks + tables
    # Packing the data takes some 36 bytes an attribute for a moment, of which 12 stay.
    total = features.nbytes + 36 * len(features.attributes) + values + size * numbers
    return (
        f"{len(features):,} sequences, {features.tokens:,} tokens, {labels} labels, "
        f"{weights:,} weights; training takes about {total / 2**20:,.0f} MB."
    )


# Fields on disk and back: names as bytes, pairs and weights as numbers.


def stored(model: LogLinearField) -> Parts:
    """The plain values and the tensors to write; names that templates share are stored once."""
    templates, tensors, places = [], dict[str, Tensor](), dict[int, int]()
    for k, own in enumerate(model.templates):
        place = places.setdefault(id(own.names), len(places))
        if f"names{place}" not in tensors:
            tensors[f"names{place}"], tensors[f"ends{place}"] = packed(own.names)
        templates.append(
            {
                "name": own.name,
                "shape": list(own.shape),
                "names": place,
                "columns": list(own.columns),
            }
        )
        tensors |= {f"attribute{k}": own.attribute.int(), f"cell{k}": own.cell.int()}
        tensors |= {f"weights{k}": model.weights[k], f"dense{k}": model.dense[k]}
    return {"templates": templates}, tensors


def restored(learned: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LogLinearField:
    """The field that `stored` was given; templates lie on the host."""
    if "attribute_names" in tensors:
        learned, tensors = _of_chain(learned, tensors)
    known: dict[int, Numbering] = {}
    templates, weights, dense = [], [], []
    for k, entry in enumerate(learned["templates"]):
        place = entry["names"]
        if place not in known:
            names = unpacked(tensors[f"names{place}"], tensors[f"ends{place}"])
            known[place] = Numbering(names, closed=True)
        pairs = (tensors[f"{part}{k}"].cpu().long() for part in ("attribute", "cell"))
        columns = texts(entry, "columns")
        own = FactorTemplate(entry["name"], tuple(entry["shape"]), known[place], columns, *pairs)
        templates.append(own)
        weights.append(tensors[f"weights{k}"])
        dense.append(tensors[f"dense{k}"])
        if not (
            own.attribute.shape == own.cell.shape == weights[k].shape
            and dense[k].shape == (len(columns), own.cells)
            and bool((own.attribute < len(own.names)).all())
            and bool((own.cell < own.cells).all())
        ):
            raise DataError("weights and names do not match")
    return LogLinearField(FieldPlans(tuple(templates)), tuple(weights), tuple(dense))


def _of_chain(learned: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Parts:
    """A linear chain as it was stored at first, with attributes of edges among all others."""
    size, host = len(learned["labels"]), {name: own.cpu().long() for name, own in tensors.items()}
    pairs, edges = torch.stack([host["source"], host["target"]], dim=1), host["edges"]
    names = unpacked(tensors["attribute_names"], tensors["attribute_ends"])
    used, number = edges[:, 0].unique(return_inverse=True)
    moves, cells = tensors["transition"], cells_of(torch.cat([pairs, edges[:, 1:]]), (size, size))
    attribute = torch.cat([torch.zeros_like(pairs[:, 0]), 1 + number])
    weights = torch.cat([moves[: len(pairs)], tensors["edge"]])
    kinds: list[tuple[str, list[str], Tensor, Tensor, Tensor]] = [
        ("state", names, host["attribute"], host["label"], tensors["state"]),
        ("transition", [BIAS, *(names[k] for k in used.tolist())], attribute, cells, weights),
    ]
    if "triples" in host:
        cells = cells_of(host["triples"], (size,) * 3)
        kinds.append(("triple", [BIAS], torch.zeros_like(cells), cells, moves[len(pairs) :]))
    templates, found = [], dict[str, Tensor]()
    for k, (kind, own, *parts) in enumerate(kinds):
        columns = [] if k else list(learned["columns"])
        templates.append({"name": kind, "shape": [size] * (k + 1), "names": k, "columns": columns})
        found[f"names{k}"], found[f"ends{k}"] = packed(own)
        found[f"attribute{k}"], found[f"cell{k}"], found[f"weights{k}"] = parts
        found[f"dense{k}"] = moves.new_zeros(0, size ** (k + 1)) if k else tensors["dense"]
    return {"templates": templates}, found


def packed(names: Iterable[str]) -> tuple[Tensor, Tensor]:
    """Names end to end as bytes, and where each ends."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = torch.tensor([len(name) for name in encoded], dtype=torch.int64).cumsum(0)
    return torch.from_numpy(np.array(bytearray().join(encoded))), ends


def unpacked(text: Tensor, ends: Tensor) -> list[str]:
    """The names that were `packed`."""
    if text.ndim != 1 or ends.ndim != 1:
        raise DataError("names are not stored as bytes")
    joined, bounds = text.cpu().numpy().tobytes(), pairwise([0, *ends.tolist()])
    return [joined[begin:end].decode("utf-8", "surrogatepass") for begin, end in bounds]


# Which estimator suits a CRF, and why: what `estimator="auto"` does.


MANY_CELLS = 50_000_000  # of all tables: exact likelihood then takes over half a second at a time


def choose_for_chains(
    plans: FieldPlans, tokens: int, *, algorithm: str = "lbfgs", device: str = "cpu"
) -> Choice[Criterion]:
    """The estimator for so many tokens of chains."""
    if len(plans.templates) > 2:
        return Choice("ml", "chains of order 2 have no other")
    if algorithm in ONLINE:
        return Choice("ml", f"algorithm='{algorithm}' has no other")
    if device != "cpu":
        return Choice("ml", "a GPU has no other")
    labels = plans.templates[0].cells
    if plans.shared_table:
        return Choice("ml", "exact likelihood is quick where all transitions share one table")
    if tokens * labels**2 < MANY_CELLS:
        return Choice("ml", f"with {labels} labels exact likelihood is quick enough")
    return Choice(
        "pwpl",
        f"{tokens:,} transitions have tables of {labels} x {labels} labels of their own, and it "
        "needs a row and a column of each",
    )
