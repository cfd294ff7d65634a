"""The field of a family of sequences: contacts over a structure, and effects of mutations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mrflearn import plots
from mrflearn.describe.blocks import Block, Data, Facts, Percent, Picture, Table
from mrflearn.describe.description import Blocks, OptionError, Task
from mrflearn.describe.fields import FieldDescription, ReadRows
from mrflearn.errors import DataError, SettingsError
from mrflearn.evaluation.contacts import CUTOFF, ContactComparison, compare_contacts
from mrflearn.io.files import write_csv
from mrflearn.io.structures import read_structure

MOST_MUTANTS = 200  # that can be asked for on the page
MOST_SCANNED = 600  # positions that a report or a page draws


class FamilyDescription(FieldDescription):
    """A field on all pairs of columns of an alignment."""

    pictures: ClassVar = frozenset({"inspect", "evaluate", "score"})

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.compared: ContactComparison | None = None

    def facts(self) -> dict[str, Any]:
        focus = self.model.focus_
        facts = {**super().facts(), "effective_sequences": self.model.n_effective_}
        return facts if focus is None else {**facts, "focus": focus.name}

    def learned(  # type: ignore[override]  # the rest is in `more`
        self,
        n: int,
        apart: int | None = None,
        edges: bool = False,
        output: Path | None = None,
        structure: Path | None = None,
        chain: str | None = None,
        cutoff: float | None = None,
        **more: Any,
    ) -> Blocks:
        """The contacts, over those of a structure where one is given."""
        if structure is not None:
            found, model = read_structure(structure, chain), self.model
            if not self.has_contacts or not model.letters_:
                raise SettingsError("only the field of an alignment is compared with a structure.")
            own = (model.contacts_, model.frequencies_, model.letters_, found)
            self.compared = compare_contacts(*own, focus=model.focus_, cutoff=cutoff or CUTOFF)
        elif chain is not None or cutoff is not None:
            raise OptionError("--chain and --cutoff are of the structure: --structure FILE.")
        rest = super().learned(n, apart=apart, edges=edges, output=output, **more)
        return [*self._over_structure(), *rest] if not edges else [*rest, *self._over_structure()]

    def _over_structure(self) -> Blocks:
        """The precision of contacts, and their map over the structure."""
        own = self.compared
        if own is None:
            return []
        found = own.figures().items()
        facts = {k: Percent(v) if isinstance(v, float) else v for k, v in found}
        count = max(1, own.columns // 2)
        drawn = own.map, own.pairs[:count], own.touching[:count], self.model.positions_
        caption = (
            f"The {count} strongest pairs (L/2) of columns at least {own.apart} apart, over the "
            f"pairs of residues of chain {own.structure.chain} closer than {own.cutoff:g} A (grey)."
        )
        picture = Picture(partial(plots.draw_contact_map, *drawn), caption=caption)
        return [Facts(facts, floats=".3f"), picture]

    def score(
        self,
        rows: ReadRows,
        method: str | None,
        mutants: str | None = None,
        scan: bool = False,
        sequence: str | None = None,
        output: Path | None = None,
        plot: Path | None = None,
    ) -> Blocks:
        """The effects of mutations, where these are asked for; else the probability of rows."""
        if not mutants and not scan:
            if any(own is not None for own in (sequence, output, plot)):
                raise OptionError("--sequence, --output and --plot go with --mutants or --scan.")
            return super().score(rows, method)
        if method is not None or (mutants and (scan or plot is not None)):
            raise OptionError("--mutants, --scan and --method answer different questions.")
        if not mutants:
            return self._scan(sequence, output)
        names = [name.strip() for name in mutants.split(",")]
        values = self.model.score_mutants(names, sequence).tolist()
        if output is not None:
            write_csv(output, {"mutant": names, "score": values})
        return [_effects(names, values)]

    def _scan(self, sequence: str | None, output: Path | None, shown: int = 10) -> Blocks:
        """All single mutations: the best and the worst of them, and a picture."""
        scan = self.model.scan_mutants(sequence)
        table = scan.table()
        if output is not None:
            write_csv(output, table)
        order = np.argsort(-np.array(table["score"]), kind="stable")
        picked = [*order[:shown], *order[max(shown, len(order) - shown) :]]
        names = [table["mutant"][i] for i in picked]
        found = _effects(names, [table["score"][i] for i in picked], key="extremes")
        facts = Facts({"mutated": scan.name, "mutants": len(order)})
        look = scan.scores, scan.positions, scan.letters, scan.wild
        caption = f"The effect of every mutation of {scan.name}, in nats; dots are its own letters."
        records = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        picture = Picture(partial(plots.draw_mutant_scan, *look), caption=caption)
        return [facts, Data({"scan": records}), found, picture]

    def report(self, facts: Mapping[str, Any] | None = None) -> Blocks:
        """With a scan of all mutations, where there is a sequence to mutate."""
        return [*super().report(facts), *self._drawn_scan()]

    def _drawn_scan(self) -> Blocks:
        try:
            small = len(self.model.positions_) <= MOST_SCANNED
            return self._scan(None, None)[-1:] if small else []
        except (SettingsError, DataError):  # of numbers, or of a sequence with gaps
            return []

    def tasks(self) -> list[Task]:
        """Contacts, samples, and mutations where letters are known."""
        field, tasks = self.model, super().tasks()
        if not self._drawn_scan():
            return tasks

        def mutants(words: Sequence[str]) -> list[Block]:
            names = [part for word in words for part in word.split(",") if part]
            return [_effects(names, field.score_mutants(names).tolist())]

        usual = field.scan_mutants().table()["mutant"][:2]
        return [*tasks, Task("mutants", " ".join(usual), mutants, MOST_MUTANTS)]


def _effects(names: Sequence[str], scores: Sequence[float], key: str = "mutants") -> Table:
    rows = list(zip(names, scores, strict=True))
    return Table(("mutant", "score"), rows, key=key, records=True, floats="+.3f")
