"""What `mrflearn inspect` tells and draws of a field."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.answers import say, say_json, say_table
from mrflearn.cli.pictures import keep
from mrflearn.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

APART = 4  # least distance of the columns of a contact, unless told


@dataclass(frozen=True)
class FieldView:
    """What is asked of a field."""

    top: int
    contacts: bool
    apart: int
    matrix: Path | None
    plot: Path | None
    edges: bool  # the picture shows the strongest edges, not a heat map of all pairs


def inspect_field(
    field: Any,
    top: int,
    contacts: bool,
    apart: int | None,
    matrix: Path | None,
    plot: Path | None,
    edges: bool,
    as_json: bool,
) -> None:
    """Answers; files that were asked for are written first."""
    if edges and plot is None:
        raise typer.BadParameter("--edges says what --plot FILE draws; give both.")
    if apart is not None and not contacts:
        raise typer.BadParameter("--apart: says which --contacts are shown; give both.")
    view = FieldView(top, contacts, APART if apart is None else apart, matrix, plot, edges)
    names = field.variable_names_
    signed = field.signed_
    what = "coupling" if signed.all() else "coupling or norm" if signed.any() else "norm"
    if view.matrix is not None:
        from mrflearn.io.contacts import write_contacts

        write_contacts(view.matrix, _contacts(field))
    _draw(field, view, names, what)
    if view.contacts:
        _tell_contacts(_contacts(field), view, as_json)
    else:
        _tell_couplings(field, names, what, view.top, as_json)


def _contacts(field: Any) -> NDArray[np.float64]:
    if not hasattr(field, "contacts_"):
        raise SettingsError(
            f"a {type(field).__name__} has no contacts; a field learned from an alignment on the "
            "complete graph has: mrflearn train field FAMILY.fasta -o MODEL."
        )
    scores: NDArray[np.float64] = field.contacts_
    return scores


def _draw(field: Any, view: FieldView, names: list[str], what: str) -> None:
    if view.plot is None:
        return
    from mrflearn.plots.couplings import draw_graph, draw_heat_map

    if view.contacts:
        matrix, what = _contacts(field), "contact score"
        edges = _strongest_contacts(matrix, view)
        strength = matrix[edges[:, 0], edges[:, 1]]
        names = [str(i + 1) for i in range(len(names))]  # as the table counts them
    else:
        order = field.strongest(view.top)
        matrix, edges, strength = (
            field.strength_matrix_,
            field.edges_[order],
            field.strengths_[order],
        )
    if view.edges:
        signed = what == "coupling"  # norms and contact scores have no sign
        figure = draw_graph(edges, strength, names, what, signed=signed)
    else:
        figure = draw_heat_map(matrix, names, what, first=1 if view.contacts else 0)
    keep(figure, view.plot)


def _strongest_contacts(scores: NDArray[np.float64], view: FieldView) -> NDArray[np.int64]:
    import numpy as np
    import torch

    from mrflearn.graph.contacts import strongest_pairs

    found = strongest_pairs(torch.as_tensor(scores), view.top, apart=view.apart)
    return np.asarray(found.tolist(), dtype=np.int64).reshape(-1, 2)


def _tell_contacts(scores: NDArray[np.float64], view: FieldView, as_json: bool) -> None:
    found = _strongest_contacts(scores, view).tolist()
    pairs = [(i + 1, j + 1, float(scores[i, j])) for i, j in found]
    if as_json:
        say_json({"columns": len(scores), "counted_from": 1, "contacts": pairs})
        return
    say(f"{len(scores)} columns, counted from 1; pairs at least {view.apart} apart")
    say_table(["contact", "score"], [[f"{i} - {j}", f"{score:.4f}"] for i, j, score in pairs])


def _tell_couplings(field: Any, names: list[str], what: str, top: int, as_json: bool) -> None:
    edges, strength, signs = field.edges_, field.strengths_, field.signed_
    order = field.strongest(top)
    if as_json:
        say_json(
            {
                "class": type(field).__name__,
                "variables": len(names),
                "names": names,
                "edges": [[*edges[i].tolist(), float(strength[i])] for i in order],
                "fields": [entry.tolist() for entry in field.fields_],
                "codes": None if field.codes_ is None else field.codes_.codes,
            }
        )
        return
    say(f"{type(field).__name__}: {len(names)} variables, {len(edges)} edges")
    shown = [f"{s:+.4f}" if sign else f"{s:.4f}" for s, sign in zip(strength, signs, strict=True)]
    rows = [[f"{names[edges[i][0]]} - {names[edges[i][1]]}", shown[i]] for i in order]
    say_table(["edge", what], rows)
