"""Makes `.venv-peers` with the libraries that benchmarks compare with; done once.

`setup_peers.py crf` makes `.venv-peers-crf`, small, for the chain CRF alone; `tagger`,
`composite` and `nn` likewise `.venv-peers-tagger` and so on; those of `nn` come without torch, to
run with the torch that mrflearn runs with.  `inference` makes `.venv-peers` and, for peers that
need a newer jax than PGMax works with, `.venv-peers-inference`.
PGMax and pgmpy are installed without what they list as dependencies: PGMax's list has TensorFlow
and a documentation system, several gigabytes that inference never imports.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
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
PEERS = ["pgmax==0.6.1", "pgmpy==1.0.0", "pyagrum==3.3.1"]
INFERENCE_PEERS = ["mbi==2.0.0", "pygms==0.4.1", "pytoulbar2==1.4.0.1", "thrml==0.1.4"]
CRF_PEERS = ["python-crfsuite==0.9.12", "numpy"]
COMPOSITE_NEEDED = ["torch==2.13.0", "numpy", "nltk==3.10.4", "scikit-learn==1.9.1"]
COMPOSITE_PEERS = ["torch-struct==0.5"]  # what it lists is for training networks, not for charts
TAGGER_PEERS = ["nltk==3.10.4"]
NN_PEERS = ["pytorch-crf==0.7.2", "torch-struct==0.5", "flash-semicrf==0.2.0"]


def main() -> None:
    if sys.argv[1:] == ["crf"]:
        make(ROOT / ".venv-peers-crf", CRF_PEERS, [])
    elif sys.argv[1:] == ["composite"]:
        make(ROOT / ".venv-peers-composite", COMPOSITE_NEEDED, COMPOSITE_PEERS)
    elif sys.argv[1:] == ["nn"]:
        make(ROOT / ".venv-peers-nn", [], NN_PEERS)
    elif sys.argv[1:] == ["tagger"]:
        make(ROOT / ".venv-peers-tagger", TAGGER_PEERS, [])
    else:
        make(ROOT / ".venv-peers", NEEDED, PEERS)
        if sys.argv[1:] == ["inference"]:
            make(ROOT / ".venv-peers-inference", INFERENCE_PEERS, [])


def make(folder: Path, needed: list[str], bare: list[str]) -> None:
    """The environment with these packages; `bare` ones come without their dependencies."""
    stamp = folder / ".ready"
    wanted = hashlib.sha256("\n".join(needed + bare).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"making {folder.name} (once; some minutes)", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check"]
    if needed:
        subprocess.run([*pip, *needed], check=True)
    if bare:
        subprocess.run([*pip, "--no-deps", *bare], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
