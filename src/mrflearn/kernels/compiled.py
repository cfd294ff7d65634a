"""Loops that numba compiles (`pip install mrflearn[fast]`), where tensor operations are too small.

Each has a twin of tensor operations, which works without numba, comes to the same decisions, and
does the first seconds of work: importing numba and compiling must not be paid by short jobs.  The
variable MRFLEARN_COMPILE says when a loop is compiled: "auto" (once enough work has been done),
"always" or "never".

Loops are plain Python over numpy arrays; compiled code is kept on disk (NUMBA_CACHE_DIR).  A number
that is rounded to the type of an array by tensor operations is rounded here by writing it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import SettingsError

Array = NDArray[Any]
Loop = Callable[..., None]
AFTER = 2.0  # seconds: about what the import of numba and the compiler take
MODES = ("auto", "always", "never")


@final
class Compiled:
    """A loop, and how much of its work has been done without it."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.seconds = loop, 0.0

    def after(self, seconds: float) -> Loop | None:
        """The compiled loop, or None where the twin is to do this call, which takes it `seconds`.

        The time is estimated from sizes, not measured, so that a run can be repeated.
        """
        mode = os.environ.get("MRFLEARN_COMPILE", "auto")
        if mode not in MODES:
            raise SettingsError(f"MRFLEARN_COMPILE={mode!r} is not one of {', '.join(MODES)}.")
        self.seconds += seconds
        if mode == "never" or (mode == "auto" and self.seconds < AFTER):
            return None
        return _compile(self.loop)


@cache
def _compile(loop: Loop) -> Loop | None:
    """None where there is no numba, or one that refuses this version of numpy or of Python."""
    try:
        import numba
    except (ImportError, OSError):
        return None
    if numba.config.DISABLE_JIT:
        return None
    try:
        found: Loop = numba.njit(nogil=True, cache=True)(loop)
    except RuntimeError:  # no folder can be written to: each process compiles for itself
        found = numba.njit(nogil=True)(loop)
    return found


def viterbi_loop(
    unary: Array,  # rows, states
    tables: Array,  # 1 (shared) or one for each row but the first ones, states, states
    lengths: Array,  # sequences, longest first
    begin: Array,  # first row of each step
    relative: int,  # every so many steps the best score is taken off
    path: Array,  # out: the state of each row
    scores: Array,  # out: float64, of each sequence
) -> None:
    """Best paths of packed chains, the first of equals: `chain_search.viterbi`."""
    # Loops over numbers, not array expressions: these compile in a fraction of the time.
    states, shared = unary.shape[1], len(tables) == 1
    best = np.empty((len(begin), states), unary.dtype)
    for i in range(len(lengths)):
        far, length = 0.0, lengths[i]
        for t in range(length):
            row = begin[t] + i
            for k in range(states):
                best[t, k] = unary[row, k] if t == 0 else -np.inf
            if t == 0:
                continue
            table = tables[0 if shared else row - begin[1]]
            for j in range(states):
                for k in range(states):
                    score, top = best[t - 1, j] + table[j, k], best[t, k]
                    best[t, k] = score if score > top else top
            for k in range(states):
                best[t, k] += unary[row, k]
            if t % relative == 0:
                top = best[t, 0]
                for k in range(states):
                    top = max(top, best[t, k])
                if top > -np.inf:
                    far += top
                    for k in range(states):
                        best[t, k] -= top
        after = 0
        for t in range(length - 1, -1, -1):
            step = t < length - 1
            table = tables[0 if shared or not step else begin[t + 1] + i - begin[1]]
            state, top = 0, -np.inf
            for j in range(states):
                score = best[t, j] + table[j, after] if step else best[t, j]
                if score > top:
                    state, top = j, score
            path[begin[t] + i] = after = state
            if not step:
                scores[i] = top + far


VITERBI = Compiled(viterbi_loop)


def gibbs_loop(
    chains: Array,  # variables, chains: the states, drawn again in place
    variables: Array,  # of one colour
    bias: Array,  # states, variables of the colour
    table: Array,  # all tables, end to end
    begin: Array,  # the first entry of each variable of the colour
    entries: Array,  # first row, rows, states, and then (variable, stride) of every other variable
    factors: Array,  # inverse temperature; a number just below 1, as in `sampling.draw`
    uniform: Array,  # variables of the colour, chains
) -> None:
    """A Gibbs sweep over one colour: `sampling.Conditionals.sweep`."""
    states, count = len(bias), chains.shape[1]
    scores = np.empty((states, count), bias.dtype)
    sums, row = np.empty(states, bias.dtype), np.empty(count, np.int64)
    for k in range(len(variables)):
        scores[:] = 0
        for z in range(begin[k], begin[k + 1]):
            first, rows = entries[z, 0], entries[z, 1]
            for n in range(count):
                row[n] = first
            for a in range(3, entries.shape[1], 2):
                other, stride = entries[z, a], entries[z, a + 1]
                for n in range(count):
                    row[n] += stride * chains[other, n]
            for s in range(entries[z, 2]):
                for n in range(count):
                    scores[s, n] += table[row[n] + s * rows]
        for n in range(count):
            peak = -np.inf
            for s in range(states):
                scores[s, n] = (scores[s, n] + bias[s, k]) * factors[0]
                peak = max(peak, scores[s, n])
            if peak == -np.inf:
                continue
            total = 0.0  # in float64, as torch adds up
            for s in range(states):
                sums[s] = scores[s, n] - peak
                total += np.exp(sums[s]) if sums[s] < 0 else 1.0
                sums[s] = total
            threshold = uniform[k, n] * sums[states - 1] * factors[1]
            state = 0
            for s in range(states):
                state += sums[s] <= threshold
            chains[variables[k], n] = state


def circuit_loop(
    leaves: Array,  # the weight of each, 0 where evidence does not allow it
    joint: Array,  # of each leaf: the number of its joint state
    leaf: Array,  # of each entry
    own: Array,  # the cell that each entry is added to
    begins: Array,  # of the entries of each cell of a first child, and their number, in its clique
    others: Array,  # the cells of other children that entries multiply
    cliques: Array,  # cells (2), component, a root?, first child, its cells, entries (2), others
    smallest: float,  # positive number that is held in full precision
    log_z: Array,  # in and out: of each component; nan where a number is below `smallest`
    found: Array,  # in (zero) and out: of each joint state
) -> None:
    """Passes up a circuit, and down again over what is possible: `Circuit.answer`.

    The entries of a clique are those of the cells of its first child, one cell after the other, and
    only cells that are possible are looked at.  Indices are unsigned, so that none is looked at for
    being negative, and what is possible is listed without branches, which could not be predicted.
    """
    number, one, last = np.uint64, np.uint64(1), len(cliques)
    leafs = number(0)  # cliques without children: one more cell for each, at the end
    for k in range(last):
        leafs += number(cliques[k, 4] >= last)
    count = number(cliques[last - 1, 1])
    cells, beliefs = np.zeros(count + leafs), np.empty(count + leafs)
    possible, counts = np.empty(count + leafs + one, np.uint32), np.empty(2 * last, np.uint32)
    tops, sums, least = np.ones(last), np.zeros(len(leaves)), 1.0
    for k in range(leafs):
        cells[count + number(k)], possible[count + number(k)] = 1.0, count + number(k)
        counts[last + k] = 1
    for k in range(last):
        ends, entries, width = cliques[k, :2], cliques[k, 6:8], cliques[k, 8]
        child, first = number(cliques[k, 4]), number(cliques[k, 5])
        worth, cell_of = leaf[entries[0] : entries[1]], own[entries[0] : entries[1]]
        a, b = others[cliques[k, 9] :], others[cliques[k, 10] :]
        for j in range(first, first + number(counts[child])):
            cell = number(possible[j])
            weight = cells[cell]
            for e in range(number(begins[cell + child]), number(begins[cell + child + one])):
                value = leaves[worth[e]] * weight
                able = leaves[worth[e]] > 0
                if width > 0:
                    value *= cells[a[e]]
                    able &= cells[a[e]] > 0
                if width > 1:
                    value *= cells[b[e]]
                    able &= cells[b[e]] > 0
                for i in range(11, 9 + width):
                    value *= cells[others[number(cliques[k, i]) + e]]
                    able &= cells[others[number(cliques[k, i]) + e]] > 0
                if able & (value < least):
                    least = value
                cells[cell_of[e]] += value
        top, low, count = 0.0, np.inf, number(ends[0])
        for c in range(number(ends[0]), number(ends[1])):
            total = cells[c]
            possible[count] = c
            count += number(total > 0)
            if total > top:
                top = total
            if (total > 0) & (total < low):
                low = total
            beliefs[c] = cliques[k, 3]
        counts[k] = count - number(ends[0])
        log_z[cliques[k, 2]] += np.log(top) if top > 0 else -np.inf
        if top > 0:
            tops[k], least = top, min(least, low / top)
            for j in range(number(ends[0]), count):
                cells[possible[j]] /= top
    for k in range(last - 1 if least >= smallest else -1, -1, -1):
        start, entries, width = number(cliques[k, 0]), cliques[k, 6:8], cliques[k, 8]
        child, first = number(cliques[k, 4]), number(cliques[k, 5])
        worth, cell_of = leaf[entries[0] : entries[1]], own[entries[0] : entries[1]]
        a, b = others[cliques[k, 9] :], others[cliques[k, 10] :]
        for j in range(start, start + number(counts[k])):
            belief = beliefs[possible[j]]
            share = belief / (cells[possible[j]] * tops[k])
            if (belief > 0) & (share < least):
                least = share
            cells[possible[j]] = share
        for j in range(first, first + number(counts[child])):
            cell, belief = number(possible[j]), 0.0
            weight = cells[cell]
            for e in range(number(begins[cell + child]), number(begins[cell + child + one])):
                value = leaves[worth[e]] * weight
                if width > 0:
                    value *= cells[a[e]]
                if width > 1:
                    value *= cells[b[e]]
                for i in range(11, 9 + width):
                    value *= cells[others[number(cliques[k, i]) + e]]
                able = (value > 0) & (cells[cell_of[e]] > 0)
                value *= cells[cell_of[e]]
                if able & (value < least):
                    least = value
                belief += value
                sums[worth[e]] += value
                if width > 0:
                    beliefs[a[e]] += value
                if width > 1:
                    beliefs[b[e]] += value
                for i in range(11, 9 + width):
                    beliefs[others[number(cliques[k, i]) + e]] += value
            beliefs[cell] = belief
    for k in range(len(sums)):
        found[joint[k]] += sums[k]
    if least < smallest:
        log_z[:] = np.nan


CIRCUIT = Compiled(circuit_loop)
