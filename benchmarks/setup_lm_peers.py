"""Makes `.venv-peers-lm` with the language-model libraries that `lm.py` compares with; done once.

A peer that cannot be installed here (KenLM compiles C++) is left out; `lm.py` then says so.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".venv-peers-lm"
PEERS = ["gensim==4.4.0", "nltk==3.10.4", "kenlm==0.3.0"]


def main() -> None:
    stamp = FOLDER / ".ready"
    wanted = "\n".join(PEERS)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"making {FOLDER.name} (once; a minute or two)", file=sys.stderr)
    venv.create(FOLDER, with_pip=True, clear=True)
    pip = [FOLDER / "bin" / "python", "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check"]
    for peer in PEERS:
        if subprocess.run([*pip, peer], check=False).returncode:
            print(f"{peer} cannot be installed here", file=sys.stderr)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
