"""The experiments of Wang et al. 2005: n-gram, grammar and topics, alone, in pairs and together.

On four texts, with and without caches of the document, beside Kneser-Ney and interpolations.  What
every source makes of every token goes to OUTPUT/columns, which interpolations are made of: they
are measured where these are there.  A training that was stopped goes on (OUTPUT/*.checkpoint).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

import rivals
from measure import MIXED, PARTS, SETTINGS, Combination, measure, setting_of
from report import write_report
from runner import Experiment, Job, Request, main

SECONDS = {"built-in": 200, "treebank": 250, "plain": 300, "Brown": 3000}  # with a grammar


def jobs(request: Request) -> Iterator[Job]:
    """Every combination, the rivals, and the mixtures of what is there by then."""
    for text in SETTINGS[request.scale]:
        setting = setting_of(request.scale, text)
        place = {"text": text, "iterations": setting.iterations, "rounds": setting.rounds}
        own = partial(Job, data=text != "built-in")
        combinations = [Combination(parts) for parts in PARTS]
        combinations += [Combination(parts, own) for own in ("parts", "cache") for parts in MIXED]
        for one in combinations:
            work = partial(measure, one, text, request)
            seconds = SECONDS[text] if "PCFG" in one.parts or one.parts == "all three" else 30
            yield own({**place, "model": one.parts, "beside": one.beside}, work, seconds)
        for order in (3, 5):
            for history in ("", "cache"):
                name = f"Kneser-Ney {order}-gram"
                work = partial(rivals.kneser_ney, text, order, bool(history), request)
                yield own({"text": text, "model": name, "beside": history}, work, 30)
        for name, work in rivals.mixtures(text, request):
            yield own({**place, "model": name}, work, 30)


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
