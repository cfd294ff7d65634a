"""What `mrflearn evaluate` tells of a field: held-out likelihood, and moments that match or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import remark, say, say_json
from mrflearn.cli.field_rows import Molecule, read_rows, whole_rows
from mrflearn.cli.pictures import keep

if TYPE_CHECKING:
    from mrflearn.estimators.field_answers import FieldQuestions


def evaluate_field(
    field: FieldQuestions,
    file: Path,
    columns: str | None,
    molecule: Molecule,
    drop_inserts: bool,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Answers; with `plot` a picture of the moments is written there first."""
    import torch

    from mrflearn.evaluation.fields import ANNEALED, EXACT, held_out, moments_match
    from mrflearn.features.observations import check_states

    potentials = field.potentials_
    rows = read_rows(file, columns, molecule, drop_inserts)
    whole = whole_rows(rows, file)
    left_out = len(rows.values) - len(whole)
    table = torch.as_tensor(field.encode(whole))
    check_states(table, potentials.graph.states)
    if EXACT.refuses(potentials.graph) is not None:
        remark(
            f"the graph is too wide for exact sums: log Z by annealing {ANNEALED.chains} chains, "
            "which takes a while for a large family ..."
        )
    found = held_out(potentials, table, seed=seed)
    match = moments_match(potentials, table, seed=seed)
    if plot is not None:
        from mrflearn.plots.moments import draw_moments

        panels = {"states": match.single, "pairs of states": match.pairs}
        keep(draw_moments({name: (one.data, one.field) for name, one in panels.items()}), plot)
    answer = {
        "samples": found.rows,
        "left_out": left_out,
        "log_likelihood_per_sample": found.log_likelihood,
        "standard_error": found.standard_error,
        "log_partition_error": found.partition_error,
        "effective_chains": found.effective_chains,
        "reliable": found.reliable,
        "method": found.method,
        "log_pseudolikelihood_per_sample": found.pseudolikelihood,
        "moments": match.kind,
        "largest_state_error": match.single.largest_error,
        "largest_pair_error": match.pairs.largest_error,
        "pair_correlation": match.pairs.correlation,
    }
    if as_json:
        say_json(answer)
        return
    _tell(answer)


def _tell(answer: dict[str, Any]) -> None:
    sure = answer["method"] == "exact"
    error, chains = answer["log_partition_error"], answer["effective_chains"]
    how = "exact" if sure else f"log Z by annealing, +- {error:.3f}, {chains:.0f} effective chains"
    say(
        f"log-likelihood       {answer['log_likelihood_per_sample']:.5f} nats a sample "
        f"(+- {answer['standard_error']:.5f} over {answer['samples']} samples; {how})"
    )
    say(
        f"log-pseudolikelihood {answer['log_pseudolikelihood_per_sample']:.5f} nats a sample, all "
        "variables together"
    )
    say(
        f"moments ({answer['moments']}): frequencies differ by at most "
        f"{answer['largest_state_error']:.4f} (states) and {answer['largest_pair_error']:.4f} "
        f"(pairs); correlation of pairs {answer['pair_correlation']:.4f}"
    )
