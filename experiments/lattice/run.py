"""Images on a torus (section 7 of the lifted model): bounds beside estimators of fields."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `runner` lies

from measure import measure
from report import write_report
from runner import Experiment, Job, Request, main

NAMES = ("truth", "stars", "chains", "ml", "pl", "lap")
# States, side, images and couplings; at log(1 + sqrt(states)) a large Potts lattice is critical.
SCALES = {
    "smoke": [(2, 4, 50, 0.5)],
    "full": [(2, 6, 400, own) for own in (0.3, 0.6, 0.88)]
    + [(3, 5, 400, own) for own in (0.3, 0.7, 1.0)],
}


def jobs(request: Request) -> Iterator[Job]:
    """A point for each field and way of learning."""
    for states, side, images, coupling in SCALES[request.scale]:
        place = {"states": states, "side": side, "images": images, "coupling": coupling}
        for name in NAMES:
            point = {**place, "name": name}
            yield Job(point, partial(measure, point), 20, share=tuple(place.values()))


if __name__ == "__main__":
    main(Experiment(jobs, write_report), Path(__file__).parent, str(__doc__))
