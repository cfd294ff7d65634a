"""Torch modules of random fields beside pytorch-crf, torch-struct and flash-semicrf, as ratios.

One loss and its gradients, in one process on one core (or, with --device cuda, on a GPU).  A time
counts only where the answers agree: the losses to a part in 100,000.  Of several runs the quickest
counts; on a processor that is its own time, not the clock's, so that others may work beside it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mrflearn.nn import ChainCRF, SemiMarkovCRF

PEERS = Path(__file__).parent.parent / ".venv-peers-nn"
AGREE = 1e-5
CHAINS = [(8, 64, 9), (32, 128, 25), (32, 384, 25)]
MANY_LABELS = 8, 512, 1000
SEGMENTS = 1, 1000, 100, 24  # batch, positions, longest segment, labels
REPEATS = 5


@dataclass
class Row:
    """What one engine made of one job."""

    job: str
    engine: str
    value: float
    seconds: float
    megabytes: float | None = None


def timed(action: Callable[[], Tensor], device: str, repeats: int) -> tuple[float, float]:
    """The least seconds of a few runs after a first one, and the answer."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    times, value = [], float(action().detach().sum())
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        began = clock()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - began)
    return min(times), value


def row(job: str, engine: str, action: Callable[[], Tensor], device: str, repeats: int) -> Row:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, value = timed(action, device, repeats)
    memory = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None
    return Row(job, engine, value, seconds, memory)


def chains(shape: tuple[int, int, int], device: str, repeats: int) -> list[Row]:
    """Negative log-likelihood and gradients of a batch of all lengths, and Viterbi."""
    b, n, s = shape
    generator = torch.Generator().manual_seed(0)
    emissions = torch.randn(b, n, s, generator=generator).to(device).requires_grad_(True)
    tags = torch.randint(s, (b, n), generator=generator).to(device)
    lengths = torch.randint(n // 2, n + 1, (b,), generator=generator).to(device)
    lengths[0] = n
    mask = torch.arange(n, device=device) < lengths[:, None]
    job, ours = f"chain {b} x {n} x {s}", ChainCRF(s, batch_first=True).to(device)

    def both(loss: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def action() -> Tensor:
            emissions.grad = None
            value = loss()
            value.backward()
            return value

        return action

    found = [row(job, "mrflearn", both(lambda: ours.loss(emissions, tags, mask)), device, repeats)]
    decoding = job + " decode"

    def decode(crf: Any) -> Callable[[], Tensor]:
        # Of several paths as good as each other, rounding decides: their probability is compared.
        def action() -> Tensor:
            paths = crf.decode(emissions, mask)
            best = torch.zeros(b, n, dtype=torch.int64)
            for row, path in zip(best, paths, strict=True):
                row[: len(path)] = torch.tensor(path)
            return best

        return action

    def probability(found: Row, crf: Any) -> Row:
        found.value = float(ours(emissions.detach(), decode(crf)().to(device), mask).detach())
        return found

    decoded = [probability(row(decoding, "mrflearn", decode(ours), device, repeats), ours)]
    if (torchcrf := peer("torchcrf")) is not None:
        theirs = torchcrf.CRF(s, batch_first=True).to(device)
        theirs.load_state_dict(ours.state_dict())
        loss = both(lambda: -theirs(emissions, tags, mask))
        found.append(row(job, "pytorch-crf", loss, device, min(repeats, 2)))
        own = row(decoding, "pytorch-crf", decode(theirs), device, min(repeats, 2))
        decoded.append(probability(own, theirs))
    if (struct := peer("torch_struct")) is not None:

        def loss_by_struct() -> Tensor:
            # Scores of (position, state, state before); ends are those of single positions.
            place = torch.arange(n, device=device)
            unary = emissions + torch.where((place == 0)[:, None], ours.start_transitions, 0.0)
            last = (place == lengths[:, None] - 1)[:, :, None]
            unary = unary + torch.where(last, ours.end_transitions, 0.0)
            steps = unary[:, 1:, :, None] + ours.transitions.t()
            steps = torch.cat([steps[:, :1] + unary[:, :1, None, :], steps[:, 1:]], dim=1)
            chain = struct.LinearChainCRF(steps, lengths=lengths)
            parts = struct.LinearChainCRF.struct.to_parts(tags, s, lengths=lengths)
            return -chain.log_prob(parts.type_as(steps)).sum()

        found.append(row(job, "torch-struct", both(loss_by_struct), device, min(repeats, 2)))
    return found + decoded


def many_labels(device: str, repeats: int) -> list[Row]:
    """Exact loss and piecewise pseudolikelihood with so many labels; these values differ."""
    b, n, s = MANY_LABELS
    generator = torch.Generator().manual_seed(0)
    emissions = torch.randn(b, n, s, generator=generator).to(device).requires_grad_(True)
    tags = torch.randint(s, (b, n), generator=generator).to(device)
    crf = ChainCRF(s, batch_first=True).to(device)
    found = []
    for estimator in ("ml", "pwpl"):

        def action(estimator: str = estimator) -> Tensor:
            emissions.grad = None
            value = crf.loss(emissions, tags, estimator=estimator)
            value.backward()
            return value

        job = f"chain {b} x {n} x {s}, {estimator}"
        found.append(row(job, "mrflearn", action, device, min(repeats, 3)))
    return found


def segments(device: str, repeats: int) -> list[Row]:
    """log Z of a semi-Markov chain and its gradients."""
    b, n, longest, s = SEGMENTS
    generator = torch.Generator().manual_seed(0)
    emissions = torch.randn(b, n, s, generator=generator).to(device).requires_grad_(True)
    ours = SemiMarkovCRF(s, longest, batch_first=True).to(device)
    with (
        torch.no_grad()
    ):  # flash-semicrf sums over a label before the first segment, and has no end
        ours.end_transitions.zero_()
        ours.start_transitions.copy_(ours.transitions.logsumexp(dim=0))
    job = f"segments {b} x {n}, at most {longest}, {s} labels"

    def action() -> Tensor:
        emissions.grad = None
        value = ours.log_partition(emissions).sum()
        value.backward()
        return value

    found = [row(job, "mrflearn", action, device, repeats)]
    if (streaming := peer("flash_semicrf.streaming")) is not None:
        lengths = torch.full((b,), n, device=device)

        def theirs() -> Tensor:
            emissions.grad = None
            sums = emissions.double().cumsum(dim=1)
            sums = torch.cat([sums.new_zeros(b, 1, s), sums], dim=1)
            table, durations = ours.transitions.double(), ours.durations.double()
            given = sums, table, durations, lengths, longest
            value = streaming.semi_crf_streaming_forward(*given).sum()
            value.backward()
            return value

        found.append(row(job, "flash-semicrf", theirs, device, 1 if device == "cpu" else repeats))
    return found


def peer(name: str) -> Any:
    """A module of a peer, or None where it is not installed."""
    try:
        __import__(name)
    except ImportError:
        return None
    return sys.modules[name]


def show(rows: list[Row]) -> None:
    """A table with ratios to ours; stops where answers differ."""
    own = {found.job: found for found in rows if found.engine == "mrflearn"}
    print(f"{'job':42} {'engine':14} {'value':>14} {'ms':>10} {'ratio':>7} {'MiB':>8}")
    for found in rows:
        ours = own[found.job]
        if abs(found.value - ours.value) > AGREE * max(1.0, abs(ours.value)):
            raise SystemExit(f"{found.job}: {found.engine} says {found.value}, ours {ours.value}")
        memory = "" if found.megabytes is None else f"{found.megabytes:.0f}"
        print(
            f"{found.job:42} {found.engine:14} {found.value:14.3f} {1e3 * found.seconds:10.2f} "
            f"{found.seconds / ours.seconds:7.1f} {memory:>8}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="the smallest job of each kind")
    options = parser.parse_args()
    # Peers come without torch: they are to run with ours.
    sys.path += [str(own) for own in PEERS.glob("lib/python*/site-packages")]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[Row] = []
    for shape in CHAINS[:1] if options.quick else CHAINS:
        rows += chains(shape, options.device, REPEATS)
    if not options.quick:
        rows += many_labels(options.device, REPEATS)
        rows += segments(options.device, REPEATS)
    show(rows)


if __name__ == "__main__":
    main()
