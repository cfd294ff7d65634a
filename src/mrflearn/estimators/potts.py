"""`PottsField`: which columns of a family's alignment depend on each other directly."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.families import FamilyQuestions
from mrflearn.estimators.field_inputs import molecule_of, sample_weights, state_rows
from mrflearn.execution.resources import choose_device, choose_dtype, require_memory
from mrflearn.features.observations import Samples, check_states
from mrflearn.io.alignments import ALPHABETS, Alignment, Focus
from mrflearn.io.answers import frame_names
from mrflearn.io.files import PathLike
from mrflearn.io.state_codes import StateCodes
from mrflearn.kernels.potts_pseudolikelihood import CodedRows
from mrflearn.models.potts import PottsModel
from mrflearn.models.storage import figure, texts
from mrflearn.objectives.base import Autograd, Layout
from mrflearn.objectives.contrastive import ContrastUntil, GibbsChains
from mrflearn.objectives.problem import Diagonal, Penalty
from mrflearn.objectives.pseudolikelihood import coded_samples, dense_pseudolikelihood
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome
from mrflearn.training.sgd import SGD

Dtype = Literal["float32", "float64"]
FamilyCriterion = Literal["pl", "pcd"]
# Rows in one batch: keeps the block of scores of four positions in a processor's cache, or the
# one-hot matrix of a wide alignment in a GPU's memory.
BATCH = 8192
COMPARED = 64  # sequences compared with all others at once; keeps the sums in cache
PSEUDOCOUNT = 0.2  # a state of each column that was never seen must not start at minus infinity
# Where None is given: a penalty on couplings that suits contacts, none where samples are wanted.
L2_COUPLINGS = {"pl": 0.2, "pcd": 0.0}
ITERATIONS = {"pl": 200, "pcd": 20_000}


@dataclass(kw_only=True, eq=False, repr=False)
class PottsField(FamilyQuestions):
    """A Potts model of all pairs of columns: for contacts and mutations, or to draw sequences from.

    Parameters
    ----------
    states
        States of every column; None takes an alignment's alphabet, else the largest seen.
        State 0 is the gap.
    estimator
        `"pl"`: penalised pseudolikelihood as in CCMpred and plmc, for contacts and the effects of
        mutations; `"pcd"`: Boltzmann learning (persistent contrastive divergence) as in adabmDCA,
        for a generative model, whose samples have the correlations of the family.
    identity
        Sequences that agree in more than this share of columns share a weight of 1; None gives
        every sequence the weight 1.
    ignore_gaps
        Whether the gap is no state but a missing letter, as by plmc's -g (`"pl"` only): what goes
        with gaps is then not learned, and sequences that are drawn have none.
    l2_fields
        L2 regularisation strength of the fields.
    l2_couplings
        L2 regularisation strength of the couplings, per other column (CCMpred's -l); None is 0.2
        for `"pl"`, and 0 for `"pcd"`.
    correlation
        `"pcd"` stops where the Pearson correlation of all connected pair correlations, between its
        chains and the data, reaches this.
    learning_rate
        Step size of `"pcd"`.
    chains
        Markov chains of `"pcd"`.
    sweeps
        Gibbs sweeps of each chain between two steps of `"pcd"`.
    max_iterations
        Most iterations of the optimiser; None is 200 for `"pl"`, 20,000 for `"pcd"`.
    tolerance
        `"pl"` stops where ten iterations lower the objective by less than this share.
    dtype
        `"float32"` or `"float64"`.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    random_state
        Seed of `"pcd"`, of `sample`, and of annealed importance sampling.
    verbose
        Whether to show progress.

    Attributes
    ----------
    model_
        The parameters, as a `PottsModel`.
    n_effective_
        The effective number of sequences: the sum of their weights.
    frequencies_
        How often each column has each state, with these weights.
    focus_
        The sequence that mutations start from, where the alignment has one.
    outcome_
        How training ended; of a loaded field, without its history.  The value of `"pcd"` is 1 - the
        correlation of its chains with the data, under this very model.
    n_features_in_
        The number of columns.
    feature_names_in_
        The names of the columns, where the samples had names.

    """

    usual_method = "pl"  # families are too wide for exact answers

    states: int | None = None
    estimator: FamilyCriterion = "pl"
    identity: float | None = 0.8
    ignore_gaps: bool = False
    l2_fields: float = 0.01
    l2_couplings: float | None = None
    correlation: float = 0.95
    learning_rate: float = 0.02
    chains: int = 1000
    sweeps: int = 5
    max_iterations: int | None = None
    tolerance: float = 1e-4
    dtype: Dtype = "float32"
    device: str = "cpu"
    random_state: int = 0
    verbose: bool = False

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from aligned sequences.

        Parameters
        ----------
        X
            What `mrflearn.io.read_alignment` reads; or sequences x columns, states counted from 0.
        y
            Ignored.
        sample_weight
            The weights of the sequences, in place of those by `identity`.
        checkpoint
            A file that training is saved to every minute.
        resume
            Whether to continue from the checkpoint.

        """
        del y  # scikit-learn passes it to every estimator
        self._check_settings()
        rows, states = self._rows(X)
        self._name_columns(frame_names(X))
        self.molecule_ = molecule_of(X)
        self.focus_, self.first_ = _focus(X)
        weights = sample_weights(sample_weight, len(rows), rows.device)
        weights = self._sequence_weights(rows) if weights is None else weights
        columns, dtype = rows.shape[1], choose_dtype(self.dtype)
        if self.ignore_gaps:  # the gap is a missing value, and the first letter the state 0
            rows, states = rows - 1, states - 1
        self.codes_ = self._gapless(columns, states)
        couplings = columns * (columns - 1) // 2 * states**2
        require_memory(
            dtype.itemsize * LBFGS().vectors_held * couplings,
            f"training the {couplings:,} couplings of {columns:,} columns",
            "Use fewer columns, or a device with more memory.",
            rows.device,
        )
        frequencies = _frequencies(rows, weights, states)
        fitted = self._pseudolikelihood if self.estimator == "pl" else self._boltzmann
        saved: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume}
        saved |= {"data": (rows, weights, states), "progress": self.verbose}
        start, samples = _independent(frequencies, dtype), Samples(rows, weights)
        self.outcome_ = fitted(start, samples, frequencies, saved)
        self.model_ = self.outcome_.model
        self.frequencies_ = np.asarray(frequencies.cpu())
        self.n_effective_ = float(weights.sum())
        self.n_features_in_ = columns
        return self

    def _check_settings(self) -> None:
        if self.estimator not in get_args(FamilyCriterion):
            raise SettingsError(f"estimator {self.estimator!r} is not one of 'pl', 'pcd'.")
        if self.ignore_gaps and self.estimator == "pcd":
            raise SettingsError("'pcd' matches the frequencies of gaps; ignore_gaps is for 'pl'.")
        if min(self._penalties(2).values()) < 0:
            given = f"{self.l2_fields} and {self.l2_couplings}"
            raise SettingsError(f"l2_fields and l2_couplings must be >= 0; got {given}.")
        if not 0 < self.correlation < 1:
            raise SettingsError(f"correlation={self.correlation} must lie between 0 and 1.")

    def _penalties(self, columns: int) -> dict[str, float]:
        """The L2 strengths of fields and couplings, for data summed over their weights."""
        own = L2_COUPLINGS[self.estimator] if self.l2_couplings is None else self.l2_couplings
        return {"fields": self.l2_fields, "couplings": own * (columns - 1)}

    def _gapless(self, columns: int, states: int) -> StateCodes | None:
        """The codes of states where gaps are ignored: letters keep their numbers, from 1."""
        if not self.ignore_gaps:
            return None
        if states < 2:
            raise DataError("there is one state beside the gap, and ignore_gaps needs two.")
        return StateCodes((tuple(range(1, states + 1)),) * columns, (states,) * columns)

    def _pseudolikelihood(
        self,
        start: PottsModel,
        samples: Samples,
        frequencies: Float[Tensor, "v s"],
        saved: dict[str, Any],
    ) -> Outcome[PottsModel]:
        """The model of greatest penalised pseudolikelihood."""
        weights, l2 = samples.row_weights, self._penalties(len(frequencies))
        rows = Samples(samples.states, weights.to(start.fields.dtype))
        batches = coded_samples(rows, frequencies.shape[1], BATCH)
        limit = ITERATIONS["pl"] if self.max_iterations is None else self.max_iterations
        return minimise(
            Autograd(start, batches, dense_pseudolikelihood),
            LBFGS(max_iterations=limit, tolerance=None, delta=self.tolerance),
            penalty=Penalty(l2=l2),
            scaling=_sizes(start, frequencies, float(weights.sum()), l2),
            **saved,
        )

    def _boltzmann(
        self,
        start: PottsModel,
        samples: Samples,
        frequencies: Float[Tensor, "v s"],
        saved: dict[str, Any],
    ) -> Outcome[PottsModel]:
        """The model whose samples have the frequencies of the data.

        The data count as one sequence more, of letters at random: pairs that were never seen have
        a small share.
        """
        total, states = float(samples.row_weights.sum()), frequencies.shape[1]
        moves, share = GibbsChains(start.potentials().graph), 1 / (1 + total)
        seen = moves.frequencies(samples.states, samples.row_weights)
        data = [(1 - share) * own + share / states ** (own.ndim - 1) for own in seen]
        layout, l2 = Layout.of(start.parameters()), self._penalties(len(frequencies))
        penalties = {name: torch.full_like(v, l2[name]) for name, v in start.parameters().items()}
        objective = ContrastUntil(
            start,
            data,
            self.chains,
            sweeps=self.sweeps,
            l2=layout.flatten(penalties) / total,
            enough=1 - self.correlation,
            seed=self.random_state,
        )
        # Rare pairs of letters move further than by their gradients alone, by the fourth root of
        # their variance squared: halfway between gradient steps and steps of a diagonal Newton.
        spread = {"fields": data[0][:, 1:], "couplings": data[1]}
        sizes = {
            name: (own * (1 - own)).pow(-0.25).to(start.fields) for name, own in spread.items()
        }
        limit = ITERATIONS["pcd"] if self.max_iterations is None else self.max_iterations
        return minimise(
            objective,
            SGD(rate=self.learning_rate, epochs=limit, target=1 - self.correlation),
            scaling=Diagonal(layout.flatten(sizes)),
            **saved,
        )

    def _sequence_weights(self, rows: Int[Tensor, "n v"]) -> Float[Tensor, " n"]:
        """One over the number of sequences that agree with it in most columns; or 1."""
        if self.identity is None:
            return torch.ones(len(rows), dtype=torch.float64, device=rows.device)
        whole = rows - min(0, int(rows.min()))  # a missing letter is one, too
        return sequence_weights(whole, int(whole.max()) + 1, self.identity)

    def _learned_parts(self) -> Parts:
        parameters = self.model_.parameters()
        parameters |= {"frequencies": torch.as_tensor(self.frequencies_)}
        learned = {
            "n_effective": self.n_effective_,
            "molecule": self.molecule_,
            "names": list(getattr(self, "feature_names_in_", [])) or None,
            "focus": None if self.focus_ is None else asdict(self.focus_),
            "first": self.first_,
        }
        return learned | self._training_parts(), parameters

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = PottsModel(tensors["fields"], tensors["couplings"])
        self.potentials_  # noqa: B018 - built once to see that shapes agree
        self.n_features_in_ = len(self.model_.fields)
        self.n_effective_ = float(figure(learned["n_effective"]))
        self.frequencies_ = np.asarray(tensors["frequencies"].cpu())
        self._name_columns(None if learned["names"] is None else texts(learned, "names"))
        self.molecule_ = molecule_of(learned)
        self.codes_ = self._gapless(self.n_features_in_, self.model_.fields.shape[1] + 1)
        self.first_ = None if learned["first"] is None else str(learned["first"])
        focus, self.focus_ = learned["focus"], None
        if focus is not None:
            positions = tuple(map(int, focus["positions"]))
            self.focus_ = Focus(str(focus["name"]), str(focus["letters"]), positions)
        self._restore_training(self.model_, learned, get_args(FamilyCriterion))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _rows(self, X: ArrayLike) -> tuple[Tensor, int]:
        """The sequences on the device, and how many states a column has."""
        table = state_rows(X)
        rows = torch.as_tensor(table, device=choose_device(self.device))
        if rows.ndim != 2 or rows.shape[1] < 2:
            raise DataError(
                "an alignment is sequences x columns, two or more of these; this has "
                f"{rows.shape[-1]} feature(s): shape {tuple(rows.shape)}."
            )
        molecule = molecule_of(X)
        letters = 2 if molecule is None else len(ALPHABETS[molecule])
        states = self.states or max(letters, int(rows.max()) + 1 if rows.numel() else 0)
        check_states(rows, torch.full((rows.shape[1],), states, device=rows.device))
        return rows, states


def _frequencies(
    rows: Int[Tensor, "n v"], weights: Float[Tensor, " n"], states: int
) -> Float[Tensor, "v s"]:
    """Of the states of each column, with a pseudocount; missing values (-1) do not count."""
    columns = torch.arange(rows.shape[1], device=rows.device).unsqueeze(1)
    counts = Samples(rows + 1, weights).count(columns, (states + 1,))[1:].t() + PSEUDOCOUNT
    return counts / counts.sum(dim=1, keepdim=True)


def _focus(source: Any) -> tuple[Focus | None, str | None]:
    """The focus of an alignment, and the letters of its first sequence; None of other tables."""
    if not isinstance(source, Alignment):
        return None, None
    return source.focus, replace(source, values=source.values[:1]).sequences()[0]


def _independent(frequencies: Float[Tensor, "v s"], dtype: torch.dtype) -> PottsModel:
    """The field without couplings that has these frequencies."""
    variables, states = frequencies.shape
    scores = frequencies.log()
    fields = (scores - scores[:, :1])[:, 1:].to(dtype)
    return PottsModel(fields, fields.new_zeros(variables * (variables - 1) // 2, states, states))


def _sizes(
    model: PottsModel, frequencies: Float[Tensor, "v s"], total: float, l2: dict[str, float]
) -> Diagonal:
    """One over the root of each parameter's curvature where variables are independent."""
    spread = frequencies * (1 - frequencies)
    first, second = model.pairs
    # Each coupling is read by the conditionals of both of its variables.
    couplings = torch.einsum("pa,pb->pab", frequencies[first], spread[second])
    couplings += torch.einsum("pa,pb->pab", spread[first], frequencies[second])
    curvatures = {"fields": spread[:, 1:], "couplings": couplings}
    sizes = {
        name: (total * own + 2 * l2[name]).rsqrt().to(model.fields.dtype)
        for name, own in curvatures.items()
    }
    return Diagonal(Layout.of(sizes).flatten(sizes))


# Weights that make up for near copies: a sequence counts 1 / (how many are as good as the same).
# Families in databases are sampled unevenly; without this, relatives of much-studied species would
# count many times.  [Morcos et al. 2011, eq. 2 of the supplement]


def agreeing_columns(identity: float, columns: int) -> int:
    """In how many columns two sequences must agree to count as copies.

    As in CCMpred: in *more than* ceil(identity * columns) of them.
    """
    if not 0 < identity <= 1:
        raise DataError(f"identity={identity} must be above 0 and at most 1; 0.8 is usual.")
    # Shares such as 0.8 are not exact in binary: 0.8 * 75 must not be rounded up to 61.
    return 1 + math.ceil(identity * columns - 1e-9 * columns)


def sequence_weights(
    rows: Int[Tensor, "n v"], states: int, identity: float = 0.8
) -> Float[Tensor, " n"]:
    """1 / (how many sequences, itself included, agree with it in that share of columns)."""
    needed = agreeing_columns(identity, rows.shape[1])
    coded = CodedRows.of(rows, states)
    copies = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), COMPARED):
        codes = coded.codes[start : start + COMPARED].long()
        ones = torch.zeros(len(coded.starts), len(codes), device=rows.device)
        ones.scatter_(0, codes.t(), 1)
        copies += (coded.times(ones) >= needed).sum(dim=1)
    # Where "more than the share" is more than all columns, a sequence is still its own copy.
    return 1 / copies.clamp_(min=1)
