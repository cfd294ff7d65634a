"""Makes `.venv-peers` with the libraries that benchmarks compare with; done once.

PGMax and pgmpy are installed without what they list as dependencies: PGMax's list has TensorFlow
and a documentation system, several gigabytes that inference never imports.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".venv-peers"
NEEDED = [
    "jax==0.4.30",
    "jaxlib==0.4.30",
    "numpy<2",
    "scipy<1.14",
    "numba",
    "cvxpy",
    "tqdm",
    "networkx",
    "scikit-learn",
    "pandas",
    "statsmodels",
    "joblib",
    "opt-einsum",
    "pyro-ppl",
    "torch==2.13.0",
]
PEERS = ["pgmax==0.6.1", "pgmpy==1.0.0"]


def main() -> None:
    stamp = FOLDER / ".ready"
    wanted = hashlib.sha256("\n".join(NEEDED + PEERS).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"making {FOLDER.name} (once; some minutes)", file=sys.stderr)
    venv.create(FOLDER, with_pip=True, clear=True)
    pip = [FOLDER / "bin" / "python", "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check"]
    subprocess.run([*pip, *NEEDED], check=True)
    subprocess.run([*pip, "--no-deps", *PEERS], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
