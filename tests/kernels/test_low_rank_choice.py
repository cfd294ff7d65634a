from __future__ import annotations

import subprocess
import sys

import torch

from mrflearn.kernels import low_rank


def test_a_cpu_gets_blocks():
    kernels = low_rank.choose(torch.zeros(1, 2, 3))
    assert kernels == (low_rank.rows_in_blocks, low_rank.star_in_blocks, low_rank.step_in_blocks)


def test_triton_is_not_imported_for_a_cpu():
    program = (
        "import sys, torch\n"
        "from mrflearn.kernels.low_rank import row_logsumexp\n"
        "row_logsumexp(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.zeros(1, 2))\n"
        "assert 'mrflearn.kernels.low_rank_triton' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
