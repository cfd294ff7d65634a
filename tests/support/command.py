"""The command line, run in this process as a user would run it in another."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from mrflearn.cli.main import main


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        (line,) = self.out.splitlines()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def facts(self) -> dict[str, str]:
        """The names and values that were printed below each other."""
        rows = (line.split("  ", 1) for line in self.out.splitlines() if "  " in line.strip())
        return {name: value.strip() for name, value in rows}


def run(*arguments: str) -> Result:
    """Runs `mrflearn ARGUMENTS`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    words = patch.object(sys, "argv", ["mrflearn", *arguments])
    with words, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Result(code, out.getvalue(), err.getvalue())
