"""Devices are named plainly."""

import pytest
import torch

from mrflearn.errors import MrflearnError
from mrflearn.execution.resources import choose_device


def test_auto_is_what_there_is() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_unknown_names_and_absent_gpus_are_told() -> None:
    with pytest.raises(MrflearnError, match="try 'cpu'"):
        choose_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(MrflearnError, match="no CUDA GPU"):
            choose_device("cuda")
