"""The arguments of an estimator as its docstring explains them; written there alone."""

from __future__ import annotations

import inspect
import re


def documented(estimator: type) -> dict[str, tuple[str, str]]:
    """The values and the text of each entry of a numpydoc section "Parameters".

    `...` stands for all arguments that are not named.
    """
    _, _, text = inspect.cleandoc(estimator.__doc__ or "").partition("Parameters\n----------\n")
    found: dict[str, tuple[str, str]] = {}
    for entry in re.findall(
        r"^(\S.*)\n((?:    .*\n|\n(?=    ))+)", text.split("\n\n")[0] + "\n", re.M
    ):
        head, _, kind = entry[0].partition(" : ")
        values = "|".join(re.findall(r"[\w-]+", kind)) if kind.startswith("{") else ""
        for name in head.split(", "):
            found[name] = values, " ".join(entry[1].split())
    if "..." in found:
        rest = dict.fromkeys(inspect.signature(estimator).parameters, found["..."])
        return rest | found
    return found
