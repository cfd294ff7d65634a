from __future__ import annotations

import subprocess
import sys

import torch

from mrflearn.kernels import low_rank, low_rank_cpu


def test_a_cpu_gets_tiles():
    kernels = low_rank.choose(torch.zeros(1, 2, 3))
    own = low_rank_cpu
    assert kernels == (own.forward, own.backward, own.star, own.power_step)


def test_triton_is_not_imported_for_a_cpu():
    program = (
        "import sys, torch\n"
        "from mrflearn.kernels.low_rank import row_logsumexp\n"
        "row_logsumexp(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.zeros(1, 2))\n"
        "assert 'mrflearn.kernels.low_rank_triton' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
