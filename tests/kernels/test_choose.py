from __future__ import annotations

import subprocess
import sys

import torch

from mrflearn.kernels import choose, low_rank_logsumexp_cpu


def test_a_cpu_gets_tiles():
    kernels = choose.low_rank_logsumexp(torch.zeros(1, 2, 3))
    assert kernels == (low_rank_logsumexp_cpu.forward, low_rank_logsumexp_cpu.backward)


def test_triton_is_not_imported_for_a_cpu():
    program = (
        "import sys, torch\n"
        "from mrflearn.kernels.low_rank_logsumexp import row_logsumexp\n"
        "row_logsumexp(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.zeros(1, 2))\n"
        "assert 'mrflearn.kernels.low_rank_logsumexp_triton' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
