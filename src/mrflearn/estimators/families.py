"""What the field of a protein or RNA family answers: contacts, mutation effects, new sequences."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.field_answers import FieldQuestions
from mrflearn.estimators.field_inputs import state_rows
from mrflearn.graph.contacts import contact_scores, strongest_pairs
from mrflearn.graph.potentials import Potentials
from mrflearn.io.alignments import ALPHABETS, Alignment, Focus, Molecule
from mrflearn.io.files import PathLike
from mrflearn.io.potts_files import CouplingsFile, write_ccmpred, write_plmc
from mrflearn.kernels.potts_gibbs import joint_frequencies
from mrflearn.models.potts import PottsModel

MUTATION = re.compile(r"([A-Z])(-?\d+)([A-Z-])", re.IGNORECASE)
SCORED = 1 << 24  # couplings looked up at once


class Mutation(NamedTuple):
    """One letter in place of another, at a position that is counted along the wild sequence."""

    wild: str
    position: int
    letter: str

    def __str__(self) -> str:
        return f"{self.wild}{self.position}{self.letter}"


@dataclass(frozen=True, eq=False)
class MutantScan:
    """The effects of all single mutations of a sequence: nats gained, below 0 where it gets worse.

    `scores[i, k]` is that of `letters[k]` at `positions[i]`; 0 for the letter `wild[i]` itself.
    """

    name: str
    wild: str
    positions: tuple[int, ...]
    letters: str
    scores: NDArray[np.float64]

    def table(self) -> dict[str, list[Any]]:
        """All mutations but those into the letter that is there, as `pd.DataFrame` takes them."""
        row, column = np.nonzero(np.array([[own != a for a in self.letters] for own in self.wild]))
        wild, letters = np.array(list(self.wild)), np.array(list(self.letters))
        parts = wild[row].tolist(), np.array(self.positions)[row].tolist(), letters[column].tolist()
        mutants = [str(Mutation(*own)) for own in zip(*parts, strict=True)]
        names = ("wild", "position", "letter")
        return {
            "mutant": mutants,
            **dict(zip(names, parts, strict=True)),
            "score": self.scores[row, column].tolist(),
        }


class FamilyQuestions(FieldQuestions):
    """The questions to a field on all pairs of columns of an alignment."""

    ignore_gaps: bool
    n_features_in_: int
    model_: PottsModel
    n_effective_: float
    frequencies_: NDArray[np.float64]  # of each column's states, with the weights of training
    focus_: Focus | None = None  # the sequence that mutations start from, and its positions
    first_: str | None = None  # the letters of the first sequence of an alignment

    @property
    def potentials_(self) -> Potentials:
        """The learned field, in the gauge that the penalty chose."""
        return self.model_.potentials()

    @property
    def counted_from_(self) -> int:
        """Columns of a family are counted from 1, as contacts are."""
        return 1

    @property
    def positions_(self) -> NDArray[np.int64]:
        """The position of each column: along the focus sequence, else its number from 1."""
        whole = np.arange(1, self.model_.fields.shape[0] + 1)
        return whole if self.focus_ is None else np.array(self.focus_.positions)

    @property
    def variable_names_(self) -> list[str]:
        """The names of the columns, else their positions with the letters of the focus (A24)."""
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        letters = "" if self.focus_ is None else self.focus_.letters
        numbers = map(str, self.positions_.tolist())
        return [letters[i : i + 1].strip("-") + own for i, own in enumerate(numbers)]

    @property
    def letters_(self) -> str:
        """The letter of each state; empty where the field was not learned from an alignment."""
        if self.molecule_ is None:
            return ""
        return ALPHABETS[self.molecule_][int(self.ignore_gaps) :]

    @property
    def contacts_(self) -> NDArray[np.float64]:
        """Corrected coupling strengths of all pairs of columns (APC of Frobenius norms)."""
        model = self.model_
        size, gap = len(model.fields), None if self.ignore_gaps else 0
        scores = contact_scores(model.pairs.t(), model.couplings, size, gap=gap)
        return np.asarray(scores.cpu())

    def contact_table(self, apart: int = 4) -> dict[str, list[Any]]:
        """All pairs of columns with their contact scores, strongest first.

        Parameters
        ----------
        apart
            Least distance of the columns of a pair.

        Returns
        -------
        dict of lists
            `i`, `letter_i`, `j`, `letter_j` (positions, and letters of the focus: "-" where there
            is none) and `score`; `pd.DataFrame` takes them.

        """
        scores = self.contacts_
        pairs = strongest_pairs(torch.as_tensor(scores), scores.size, apart=apart).numpy()
        letters = "-" * len(scores) if self.focus_ is None else self.focus_.letters
        table: dict[str, list[Any]] = {}
        for name, own in zip("ij", pairs.T, strict=True):
            table[name] = self.positions_[own].tolist()
            table[f"letter_{name}"] = [letters[column] for column in own]
        return {**table, "score": scores[pairs[:, 0], pairs[:, 1]].tolist()}

    def score_mutants(
        self, mutants: str | Sequence[str], sequence: str | None = None
    ) -> NDArray[np.float64]:
        """How much more probable mutants are than the sequence they come from, in nats.

        Parameters
        ----------
        mutants
            Such as `"A24G"`, `"A24G,K30R"` (two mutants) or `"A24G:K30R"` (one with both
            mutations); or a list of such.  Letters and positions are those of the sequence,
            counted as in `positions_`.
        sequence
            What is mutated, a letter a column; None takes the focus, or where none was chosen the
            first sequence learned from.

        Returns
        -------
        ndarray of float
            log p(mutant) - log p(sequence) of each mutant: below 0 where it fits the family worse.

        """
        wild, row = self._wild(sequence)
        names = mutants.split(",") if isinstance(mutants, str) else list(mutants)
        rows = row.repeat(len(names), 1)
        place = {int(at): column for column, at in enumerate(self.positions_)}
        for number, name in enumerate(names):
            for own in self._mutations(name):
                column = place.get(own.position)
                if column is None or wild.letters[column] != own.wild:
                    raise DataError(self._no_such(own, wild, column))
                rows[number, column] = self.letters_.index(own.letter)
        scores = self._scores(torch.cat([row, rows]))
        return np.asarray(scores[1:] - scores[0])

    def scan_mutants(self, sequence: str | None = None) -> MutantScan:
        """The effects of all single mutations, as `score_mutants` counts them.

        Parameters
        ----------
        sequence
            What is mutated; None takes the focus, or else the first sequence learned from.

        Returns
        -------
        MutantScan
            `scores`, positions x letters; `table()` lists them.

        """
        wild, row = self._wild(sequence)
        here = torch.tensor([own != "-" for own in wild.letters])
        scores = self.model_.conditional_scores(row[0])[here.to(row.device)].cpu()
        own = row[0].cpu()[here]
        scores = scores - scores.gather(1, own.unsqueeze(1))
        first = int(self.letters_[0] == "-")  # a deletion is no substitution
        letters = "".join(letter for letter in wild.letters if letter != "-")
        positions = tuple(np.array(wild.positions)[here.numpy()].tolist())
        gains = np.asarray(scores[:, first:])
        return MutantScan(wild.name, letters, positions, self.letters_[first:], gains)

    def sample_alignment(self, n: int = 1, *, random_state: int | None = None) -> Alignment:
        """New sequences of the family, which `mrflearn.io.write_alignment` writes as FASTA.

        Parameters
        ----------
        n
            How many.
        random_state
            The seed; None is that of the estimator.

        Returns
        -------
        Alignment
            The sequences, named sample-1, sample-2 and so on.

        """
        molecule = self._known_molecule()
        rows = self.sample(n, random_state=random_state)
        names = tuple(f"sample-{i}" for i in range(1, n + 1))
        return Alignment(molecule, names, rows.astype(np.int8), focus=self.focus_)

    def export(self, path: PathLike, X: ArrayLike | None = None) -> None:
        """Writes the field for other programs, by the ending of the name.

        `.model` is plmc's parameter file, which EVcouplings reads; `.raw` what CCMpred's -r writes;
        `.mat` CCMpred's matrix of contact scores; `.uai` a network for programs of inference.

        Parameters
        ----------
        path
            The file to write.
        X
            The alignment learned from: plmc's file has the frequencies of pairs, too.  None leaves
            them out (NaN), which no energy needs.

        """
        ending = str(path).removesuffix(".gz").rpartition(".")[2]
        if ending == "model":
            write_plmc(path, self._couplings_file(X))
        elif ending == "raw":
            write_ccmpred(path, self._couplings_file(X))
        elif ending == "mat":
            from mrflearn.io.contacts import write_contacts

            write_contacts(path, self.contacts_)
        elif ending == "uai":
            super().export(path)
        else:
            raise SettingsError(
                f"{path}: a family's field is exported to a name in .model (plmc, EVcouplings), "
                ".raw or .mat (CCMpred), or .uai."
            )

    def _couplings_file(self, X: ArrayLike | None) -> CouplingsFile:
        """The field as files of couplings have it."""
        self._known_molecule()
        model, focus = self.model_, self.focus_
        fields = np.asarray(model.full_fields().cpu(), dtype=np.float64)
        couplings = np.asarray(model.couplings.cpu())
        seen = np.full(couplings.shape, np.nan)
        if X is not None:
            seen = self._pair_frequencies(X)
        target = (self.first_ or "-" * len(fields)) if focus is None else focus.letters
        return CouplingsFile(
            alphabet=self.letters_,
            target=target,
            positions=tuple(self.positions_.tolist()),
            fields=fields,
            couplings=couplings,
            frequencies=self.frequencies_,
            pair_frequencies=seen,
            effective=self.n_effective_,
        )

    def _pair_frequencies(self, X: ArrayLike) -> NDArray[np.float64]:
        """How often each pair of columns has each pair of states, in sequences given again."""
        rows = torch.as_tensor(state_rows(X))
        if rows.shape[1] != self.n_features_in_:
            raise DataError(f"X has {rows.shape[1]} columns; the field has {self.n_features_in_}.")
        weights = self._sequence_weights(rows)
        states, (first, second) = self.model_.fields.shape[1] + 1, self.model_.pairs.cpu()
        whole = joint_frequencies(rows - int(self.ignore_gaps), states, weights)
        tables = np.asarray(whole.permute(0, 2, 1, 3)[first, second], dtype=np.float64)
        return np.asarray(tables / np.maximum(tables.sum(axis=(1, 2), keepdims=True), 1e-300))

    @abstractmethod
    def _sequence_weights(self, rows: Int[Tensor, "n v"]) -> Float[Tensor, " n"]:
        """The weights that these rows have in training."""

    def _known_molecule(self) -> Molecule:
        if self.molecule_ is None:
            raise SettingsError(
                "this field was learned from numbers, which have no letters. Learn from what "
                "mrflearn.io.read_alignment reads."
            )
        return self.molecule_

    def _wild(self, sequence: str | None) -> tuple[Focus, Int[Tensor, "1 v"]]:
        """The sequence that is mutated, and its states; the gap's where it has none."""
        molecule, size = self._known_molecule(), len(self.model_.fields)
        wild, given = self.focus_, self.first_ if sequence is None else sequence.upper()
        if given is not None and (wild is None or sequence is not None):
            name = "the first sequence" if sequence is None else "the sequence"
            wild = Focus(name, given, tuple(self.positions_.tolist()))
        if wild is None:
            raise SettingsError("which sequence is mutated? Give its letters: sequence='...'.")
        letters, known = wild.letters, ALPHABETS[molecule]
        if len(letters) != size or any(letter not in known for letter in letters):
            problem = f"the sequence has {len(letters)} letters"
            raise DataError(f"{problem}; {size} of {' '.join(known)} are needed, one a column.")
        if self.ignore_gaps and "-" in letters:
            place = self.positions_[letters.index("-")]
            raise DataError(
                f"the sequence has a gap at position {place}, which a field that ignores gaps "
                "cannot score. Learn it with a focus: read_alignment(path, focus=NAME)."
            )
        states = [self.letters_.index(letter) for letter in letters]
        return wild, torch.tensor([states], device=self.model_.fields.device)

    def _mutations(self, name: str) -> list[Mutation]:
        """The mutations that a mutant is made of, its parts between colons."""
        found = []
        for word in name.strip().split(":"):
            match = MUTATION.fullmatch(word.strip())
            letter = "" if match is None else match[3].upper()
            if match is None or letter not in self.letters_:
                raise DataError(
                    f"{word.strip()!r} is no mutation: write the letter, its position and the new "
                    f"letter, as in A24G. There are {' '.join(self.letters_)}."
                )
            found.append(Mutation(match[1].upper(), int(match[2]), letter))
        return found

    def _no_such(self, own: Mutation, wild: Focus, column: int | None) -> str:
        """What is wrong with a mutation of a letter that is not there."""
        positions = self.positions_
        if column is None:
            return (
                f"{own}: there is no position {own.position}; they run from {positions[0]} to "
                f"{positions[-1]}, those of {wild.name}'s residues."
            )
        letter = wild.letters[column]
        what = "a gap" if letter == "-" else letter
        return f"{own}: {wild.name} has {what} at position {own.position}, not {own.wild}."

    def _scores(self, rows: Int[Tensor, "n v"]) -> NDArray[np.float64]:
        parts = rows.split(max(1, SCORED // max(1, len(self.model_.couplings))))
        return np.concatenate([np.asarray(self.model_.score(part).cpu()) for part in parts])
