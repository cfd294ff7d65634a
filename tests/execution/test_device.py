"""Devices are named plainly, and what a processor multiplies is read off its flags."""

from pathlib import Path

import pytest
import torch

from mrflearn.errors import MrflearnError
from mrflearn.execution.resources import choose_device, multiplies_bfloat16


def test_auto_is_what_there_is() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_unknown_names_and_absent_gpus_are_told() -> None:
    with pytest.raises(MrflearnError, match="try 'cpu'"):
        choose_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(MrflearnError, match="no CUDA GPU"):
            choose_device("cuda")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx2 avx512_bf16", True), ("amx_bf16 amx_tile", True), ("fpu avx2 avx512f", False)],
)
def test_instructions_for_bfloat16_are_among_the_flags(
    tmp_path: Path, flags: str, expected: bool
) -> None:
    names = tmp_path / "cpuinfo"
    names.write_text(f"processor : 0\nflags : {flags}\n", encoding="utf-8")
    assert multiplies_bfloat16(names) == expected
    assert not multiplies_bfloat16(tmp_path / "none")
