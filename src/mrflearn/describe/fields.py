"""Fields: who is coupled to whom, how probable rows are, and new rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn import evaluation, plots
from mrflearn.describe.blocks import Data, Diagram, Facts, Matrix, Nats, Note, Picture, Table, Text
from mrflearn.describe.description import Answers, Blocks, Description, OptionError, Task
from mrflearn.errors import DataError, InferenceError, SettingsError
from mrflearn.estimators.field_output import alignment_of, row_writer
from mrflearn.evaluation.fields import ANNEALED, EXACT, held_out, moments_match
from mrflearn.graph.contacts import strongest_pairs
from mrflearn.io.contacts import write_contacts
from mrflearn.io.files import write_csv

APART = 4  # least distance of the columns of a contact, unless given
MOST_DRAWN = 400  # variables of a heat map
MOST_ON_PAGE = 80
MOST_CENTRAL = 40  # variables whose centrality is drawn
MOST_COUPLINGS = 1000  # that can be asked for on the page
MOST_SAMPLES = 20
MOST_WORDS = 100  # of evidence
IN_NATS = re.compile(r"^log_|^standard_error$")
GRID = re.compile(r"grid:\d+x(\d+)")
ReadRows = Callable[[], tuple[Any, int]]  # rows without missing values, and how many were left out
Strongest = tuple[Blocks, Matrix, Diagram]  # couplings or contacts: listed, and drawn twice


class FieldDescription(Description):
    """A field of variables, each with a few states."""

    pictures: ClassVar = frozenset({"inspect", "evaluate"})
    objective: ClassVar = "objective, nats, up to a constant"

    def facts(self) -> dict[str, Any]:
        variables, couplings = len(self.model.variable_names_), len(self.model.edges_)
        return {**super().facts(), "variables": variables, "couplings": couplings}

    def learned(
        self,
        n: int,
        contacts: bool = False,
        apart: int | None = None,
        matrix: Path | None = None,
        edges: bool = False,
        plot: Path | None = None,
        output: Path | None = None,
    ) -> Blocks:
        """The strongest couplings, or the contacts of a family; `edges` are drawn first then."""
        if edges and plot is None and output is None:
            raise OptionError("--edges says what --plot FILE draws, or --output FILE holds.")
        if not self.has_contacts and (contacts or apart is not None or matrix is not None):
            raise SettingsError(
                f"a {self.kind} has no contacts; a field learned from an alignment on the complete "
                "graph has: mrflearn train field FAMILY.fasta -o MODEL."
            )
        if matrix is not None:
            write_contacts(matrix, self.model.contacts_)
        found, heat, network = self.strongest(n, apart or APART)
        if output is not None:
            own = self.model
            write_csv(
                output, own.contact_table(apart or 1) if self.has_contacts else own.edge_table()
            )
        pictures = [network, heat] if edges else [heat, network]
        pictures = pictures if 0 < len(network.names) <= MOST_DRAWN or plot else []
        return [*found, *pictures, *self._centrality(), *self._with_intervals(n)]

    @cached_property
    def has_contacts(self) -> bool:
        """Whether it is the field of a family, whose pairs of columns have contact scores."""
        return hasattr(type(self.model), "contacts_") and len(self.model.variable_names_) > 2

    def strongest(self, n: int, apart: int = APART) -> Strongest:
        """The strongest couplings; of a family the contacts of columns at least `apart`."""
        field, facts = self.model, self.facts()
        names, first = field.variable_names_, field.counted_from_
        if not hasattr(field, "feature_names_in_"):
            facts["counted_from"] = first
        lattice = GRID.fullmatch(str(getattr(field, "graph", "")))
        columns = 0 if lattice is None else int(lattice[1])
        if self.has_contacts:
            many, what, signed, matrix = "contacts", "contact score", False, field.contacts_
            facts["apart"] = apart
            pairs = strongest_pairs(torch.as_tensor(matrix), matrix.size, apart=apart).numpy()
            strengths = matrix[pairs[:, 0], pairs[:, 1]]
        else:
            many, signed, matrix = "couplings", bool(field.signed_.all()), field.strength_matrix_
            what = "coupling" if signed else "coupling or norm" if field.signed_.any() else "norm"
            order = field.strongest(len(field.edges_))
            pairs, strengths = field.edges_[order], field.strengths_[order]
        numbers = getattr(field, "positions_", np.arange(first, first + len(names)))
        values, few = strengths[:n].tolist(), pairs[:n]
        named = [(names[i], names[j], own) for (i, j), own in zip(few, values, strict=True)]
        listed = [[*pair, own] for pair, own in zip(numbers[few].tolist(), values, strict=True)]
        key, one = ("contacts", "column") if self.has_contacts else ("edges", "variable")
        codes = None if field.codes_ is None else field.codes_.codes
        fields = [own.tolist() for own in field.fields_]
        floats = "+.4f" if signed else ".4f"
        extent = partial(_extent, total=len(pairs), what=many)
        found: Blocks = [
            Facts(facts),
            Data({"names": names, key: listed, "fields": fields, "codes": codes}),
            Table((one, "and", what), named, title=extent(len(named)), floats=floats),
        ]
        caption = f"How strongly each pair of {one}s is coupled."
        heat = Matrix(matrix, names, what, signed, (one, one), first, caption=caption)
        # On a lattice all edges have a place.
        drawn = len(pairs) if columns and len(names) <= MOST_DRAWN else n
        shown, faint = (pairs[:drawn], strengths[:drawn]), self._unsure(pairs[:drawn])
        network = Diagram(names, *shown, what, signed, columns, faint=faint)
        return found, heat, replace(network, caption=f"{extent(len(network.edges))}.")

    @property
    def _intervals(self) -> dict[str, Any] | None:
        """The edges with intervals that the field keeps, if it does."""
        return getattr(self.model, "intervals_", None)

    def _unsure(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of the edges have an interval that holds 0."""
        if (kept := self._intervals) is None:
            return None
        columns = (kept[name] for name in ("variable", "and", "low", "high"))
        rows = zip(*columns, strict=True)
        unsure = {frozenset((one, other)) for one, other, low, high in rows if low <= 0 <= high}
        names = self.model.variable_names_
        return np.array([frozenset((names[a], names[b])) in unsure for a, b in pairs])

    def _centrality(self) -> Blocks:
        """How central each variable is, drawn."""
        if self.has_contacts or not 1 < len(self.model.variable_names_) <= MOST_CENTRAL:
            return []
        found = partial(evaluation.centrality, self.model)  # where it is looked at
        caption = "How central each variable is among all couplings."
        return [Picture(lambda: plots.draw_centrality(found()), caption=caption)]

    def _with_intervals(self, n: int) -> Blocks:
        """Edges with their intervals, as a table and drawn."""
        if (kept := self._intervals) is None:
            return []
        columns = {name: own for name, own in kept.items() if name != "remark"}
        rows = list(zip(*columns.values(), strict=True))
        title = f"Intervals of the {min(n, len(rows)):,} strongest of {len(rows):,} edges"
        remark = [Note(f"the intervals may not cover: {kept['remark']}")] if kept["remark"] else []
        table = Table(tuple(columns), rows[:n], title=title, floats=".3f")
        caption = "Strengths of edges in all rows, and where 95 % of the resamples have them."
        picture = Picture(partial(plots.draw_intervals, columns), caption=caption)
        return [*remark, table, picture]

    def score(self, rows: ReadRows, method: str | None) -> Blocks:
        """The mean log-probability of the rows of a file."""
        complete, _ = rows()
        method = self.model.usual_method if method is None else method
        try:
            values = self.model.log_likelihood(complete, method)
        except InferenceError as error:
            raise InferenceError(f"{error} Here: --method ais (sampled) or --method pl.") from error
        spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        what = "log_pseudolikelihood" if method == "pl" else "log_likelihood"
        facts = {
            f"{what}_per_sample": Nats(values.mean()),
            "standard_error": Nats(spread / len(values) ** 0.5),
            "samples": len(values),
            "method": method,
        }
        return [Facts(facts)]

    def evaluate(self, rows: ReadRows, seed: int) -> Answers:
        """Held-out likelihood, and moments that match or not."""
        potentials = self.model.potentials_
        complete, left_out = rows()
        table = torch.as_tensor(self.model.encode(complete))
        if EXACT.refuses(potentials.graph) is not None:
            slow = (
                f"the graph is too wide for exact sums: log Z by annealing {ANNEALED.chains} "
                "chains, which takes a while for a large family ..."
            )
            yield [Note(slow)]
        found = held_out(potentials, table, seed=seed)
        match = moments_match(potentials, table, seed=seed)
        figures = {**found.figures(), "left_out": left_out, **match.figures()}
        facts = {k: Nats(v) if IN_NATS.search(k) else v for k, v in figures.items()}
        panels = {"states": match.single, "pairs of states": match.pairs}
        moments = {name: (own.data, own.field) for name, own in panels.items()}
        yield [Facts(facts), Picture(partial(plots.draw_moments, moments))]

    def answer(self, evidence: dict[str, str], *, best: bool = False) -> Blocks:
        """The probabilities of all states given those of some variables, or the best states."""
        if best:
            mode = self.model.most_probable(evidence)
            facts = {"kind": mode.kind, "log_ratio": Nats(mode.log_ratio)}
            return [Facts(facts), *state_blocks(mode.states)]
        found = self.model.marginals(evidence)
        facts = {"kind": found.kind, "converged": found.converged}
        facts |= {"log_evidence": Nats(found.log_evidence)} if evidence else {}
        return [Facts(facts), *marginal_blocks(found.probabilities, evidence)]

    def sample(self, n: int, seed: int, output: Path | None) -> Blocks:
        """New rows, written to a file where one is named."""
        write = None if output is None else row_writer(self.model, output)
        samples, method = self.model.draw(n, random_state=seed)
        note, data = Note(f"drawn by: {method}"), {"method": method}
        if write is not None:
            write(samples)
            return [note, Data({**data, "output": str(output)})]
        family = alignment_of(self.model, samples)
        rows = samples.tolist() if family is None else family.sequences()
        lines = (" ".join(map(str, row)) for row in rows) if family is None else rows
        return [note, Text("\n".join(lines)), Data({**data, "samples": rows})]

    def tasks(self) -> list[Task]:
        """The strongest couplings or contacts, and samples."""
        field = self.model

        def couplings(n: int) -> Blocks:
            found, heat, network = self.strongest(n, APART)
            few = len(heat.names) <= MOST_ON_PAGE
            return [network, found[-1], *([heat] if few else []), *self._centrality()]

        def samples(n: int) -> Blocks:
            rows, method = field.draw(n, random_state=0)
            note, title = Note(f"drawn by: {method}"), "samples, one a row"
            if (family := alignment_of(field, rows)) is not None:
                return [note, Text("\n".join(family.sequences()), title=title)]
            if rows.dtype.kind != "i":
                return [note, Table(tuple(names), rows.tolist(), title=title)]
            return [note, Matrix(rows, names, "state", field.spins_, title=title)]

        def answered(words: list[str], best: bool = False) -> Blocks:
            return self.answer(evidence_of(" ".join(words)), best=best)

        what = "contacts" if self.has_contacts else "couplings"
        names, labels = field.variable_names_, field.labels_
        most = min(MOST_COUPLINGS, len(field.edges_))
        numbers = {"n": (min(20, most), range(most + 1))}
        usual = f"{names[0]}={labels[0][-1]}"
        asked = [
            Task("marginals", usual, answered, MOST_WORDS, 0),
            Task("best", usual, partial(answered, best=True), MOST_WORDS, 0),
        ]
        kept = [Task("intervals", "", self._with_intervals, 0, options=numbers)]
        return [
            *(asked if len(names) <= MOST_ON_PAGE else []),
            *(kept if self._intervals is not None else []),
            Task(what, "", couplings, 0, options=numbers),
            Task("samples", "", samples, 0, options={"n": (5, range(1, MOST_SAMPLES + 1))}),
        ]


def _extent(shown: int, total: int, what: str) -> str:
    """How many are shown, of how many."""
    return (
        f"The {shown:,} strongest of {total:,} {what}" if shown < total else f"All {total:,} {what}"
    )


def state_blocks(states: Mapping[str, Any]) -> Blocks:
    """The state of each variable by name."""
    rows = [(name, str(state)) for name, state in states.items()]
    return [Data({"states": states}), Table(("variable", "state"), rows, title="States")]


def marginal_blocks(
    chances: Mapping[str, Mapping[Any, float]], seen: Collection[str], most: int | None = None
) -> Blocks:
    """The probability of each variable's states; at most so many variables for people."""
    listed = {v: {str(label): p for label, p in own.items()} for v, own in chances.items()}
    rows = []
    for name, own in islice(listed.items(), most):
        shown = ", ".join(f"{label}: {chance:.4f}" for label, chance in own.items())
        rows.append((f"{name} (observed)" if name in seen else name, shown))
    table = Table(("variable", "probabilities of states"), rows, title="Marginals")
    more = len(listed) - len(rows)
    rest = [Text(f"... and {more} more; --json prints all.")] if more else []
    return [Data({"marginals": listed}), table, *rest]


def evidence_of(text: str) -> dict[str, str]:
    """Names and states of a text such as `sleep=yes, mood=low`, or `sleep=yes mood=low`."""
    parts = text.split() if "," not in text and text.count("=") > 1 else text.split(",")
    evidence = {}
    for part in filter(None, map(str.strip, parts)):
        name, _, state = map(str.strip, part.rpartition("="))
        if not name or not state:
            raise DataError(f"{part!r} is no evidence: write NAME=STATE, several with commas.")
        evidence[name] = state
    return evidence
