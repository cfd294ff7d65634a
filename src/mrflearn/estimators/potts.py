"""`PottsField`: which columns of a family's alignment depend on each other directly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.field_answers import FieldQuestions
from mrflearn.estimators.field_inputs import column_names, molecule_of, sample_weights, state_rows
from mrflearn.execution.resources import choose_device, choose_dtype, require_memory
from mrflearn.features.observations import Samples, check_states
from mrflearn.graph.contacts import contact_scores
from mrflearn.graph.potentials import Potentials
from mrflearn.io.alignments import ALPHABETS
from mrflearn.io.files import PathLike
from mrflearn.kernels.potts_pseudolikelihood import CodedRows
from mrflearn.models.potts import PottsModel
from mrflearn.models.storage import figure, texts
from mrflearn.objectives.base import Autograd, Layout
from mrflearn.objectives.problem import Diagonal, Penalty
from mrflearn.objectives.pseudolikelihood import coded_samples, dense_pseudolikelihood
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome

Dtype = Literal["float32", "float64"]
# Rows in one batch: keeps the block of scores of four positions in a processor's cache, or the
# one-hot matrix of a wide alignment in a GPU's memory.
BATCH = 8192
COMPARED = 64  # sequences compared with all others at once; keeps the sums in cache
PSEUDOCOUNT = 0.2  # a state of each column that was never seen must not start at minus infinity


@dataclass(kw_only=True, eq=False, repr=False)
class PottsField(FieldQuestions):
    """A Potts model of all pairs of columns, by penalised pseudolikelihood as in CCMpred and plmc.

    Parameters
    ----------
    states
        States of every column; None takes an alignment's alphabet, else the largest seen.
        State 0 is the gap.
    identity
        Sequences that agree in more than this share of columns share a weight of 1; None gives
        every sequence the weight 1.
    l2_fields
        L2 regularisation strength of the fields.
    l2_couplings
        L2 regularisation strength of the couplings, per other column (CCMpred's -l).
    max_iterations
        Most iterations of the optimiser.
    tolerance
        Training stops where ten iterations lower the objective by less than this share.
    dtype
        `"float32"` or `"float64"`.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    random_state
        Seed of `sample`, and of annealed importance sampling.
    verbose
        Whether to show progress.

    Attributes
    ----------
    model_
        The parameters, as a `PottsModel`.
    n_effective_
        The effective number of sequences: the sum of their weights.
    outcome_
        How training ended; of a loaded field, without its history.
    n_features_in_
        The number of columns.
    feature_names_in_
        The names of the columns, where the samples had names.

    """

    usual_method = "pl"  # families are too wide for exact answers

    states: int | None = None
    identity: float | None = 0.8
    l2_fields: float = 0.01
    l2_couplings: float = 0.2
    max_iterations: int = 200
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
            Sequences x columns, states counted from 0; or what `mrflearn.io.read_alignment` reads.
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
        rows, states = self._rows(X)
        self._name_columns(column_names(X))
        self.molecule_ = molecule_of(X)
        weights = sample_weights(sample_weight, len(rows), rows.device)
        if weights is None and self.identity is not None:
            weights = sequence_weights(rows, states, self.identity)
        weights = Samples(rows, weights).row_weights
        columns, dtype = rows.shape[1], choose_dtype(self.dtype)
        l2 = {"fields": self.l2_fields, "couplings": self.l2_couplings * (columns - 1)}
        if min(l2.values()) < 0:
            raise SettingsError(
                f"l2_fields and l2_couplings must be >= 0; got {self.l2_fields} and "
                f"{self.l2_couplings}."
            )
        couplings = columns * (columns - 1) // 2 * states**2
        require_memory(
            dtype.itemsize * LBFGS().vectors_held * couplings,
            f"training the {couplings:,} couplings of {columns:,} columns",
            "Use fewer columns, or a device with more memory.",
            rows.device,
        )
        frequencies = _frequencies(Samples(rows, weights), states)
        start = _independent(frequencies, dtype)
        batches = coded_samples(Samples(rows, weights.to(dtype)), states, BATCH)
        outcome: Outcome[PottsModel] = minimise(
            Autograd(start, batches, dense_pseudolikelihood),
            LBFGS(max_iterations=self.max_iterations, tolerance=None, delta=self.tolerance),
            penalty=Penalty(l2=l2),
            scaling=_sizes(start, frequencies, float(weights.sum()), l2),
            progress=self.verbose,
            checkpoint=checkpoint,
            resume=resume,
            data=(rows, weights, states),
        )
        self.outcome_ = outcome
        self.model_ = outcome.model
        self.n_effective_ = float(weights.sum())
        self.n_features_in_ = columns
        return self

    @property
    def potentials_(self) -> Potentials:
        """The learned field, in the gauge that the penalty chose."""
        return self.model_.potentials()

    @property
    def counted_from_(self) -> int:
        """Columns of a family are counted from 1, as contacts are."""
        return 1

    @property
    def contacts_(self) -> NDArray[np.float64]:
        """Corrected coupling strengths of all pairs of columns (APC of Frobenius norms)."""
        model = self.model_
        return np.asarray(contact_scores(model.pairs.t(), model.couplings, len(model.fields)).cpu())

    def _learned_parts(self) -> Parts:
        parameters = self.model_.parameters()
        names = list(getattr(self, "feature_names_in_", [])) or None
        learned = {"n_effective": self.n_effective_, "molecule": self.molecule_, "names": names}
        return learned | self._training_parts(), parameters

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = PottsModel(tensors["fields"], tensors["couplings"])
        self.potentials_  # noqa: B018 - built once to see that shapes agree
        self.n_features_in_ = len(self.model_.fields)
        self.n_effective_ = float(figure(learned["n_effective"]))
        self._name_columns(None if learned["names"] is None else texts(learned, "names"))
        self.molecule_ = molecule_of(learned)
        self._restore_training(self.model_, learned)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _rows(self, X: ArrayLike) -> tuple[Tensor, int]:
        """The sequences on the device, and how many states a column has."""
        table = state_rows(X, spins=False)
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


def _frequencies(samples: Samples, states: int) -> Float[Tensor, "v s"]:
    """Of the states of each column, with a pseudocount."""
    columns = torch.arange(samples.states.shape[1], device=samples.states.device)
    counts = samples.count(columns.unsqueeze(1), (states,)).t() + PSEUDOCOUNT
    return counts / counts.sum(dim=1, keepdim=True)


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
