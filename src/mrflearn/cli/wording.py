"""Complaints of the library in the words of the command that was run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Settings that Python and the command line call by different names.
OTHERWISE = {"n_jobs": "--jobs", "random_state": "--seed", "verbose": "--quiet"}
SETTING = re.compile(r"\b([a-z][a-z0-9_]*)=('[^']*'|\"[^\"]*\"|\.{3}|[\w+-]+(?:\.\w+)*)")


def in_own_words(message: str, options: Mapping[str, str]) -> str:
    """The message with `name='value'` as `--name value`, and `name=True` as `--name`.

    Names that are no options of the command stay as they are.
    """

    def told(found: re.Match[str]) -> str:
        option, value = options.get(found[1]), found[2].strip("'\"")
        if option is None:
            return found[0]
        return option if value == "True" else f"{option} {value}"

    return SETTING.sub(told, message)


def options_of(group: Any, words: list[str]) -> dict[str, str]:
    """Python's names for the options of the command that these words call, and the options."""
    for word in words:
        group = getattr(group, "commands", {}).get(word, group)
    named = {own.name: own.opts[0] for own in group.params if own.param_type_name == "option"}
    known = set(named.values())
    return named | {name: option for name, option in OTHERWISE.items() if option in known}
