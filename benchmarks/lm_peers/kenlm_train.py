"""KenLM's trainer, where the program lmplz is on the path.  A task on stdin, an answer on stdout.

The unknown word of the text is renamed, for lmplz would not count it.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    task = json.load(sys.stdin)
    lmplz = shutil.which("lmplz")
    if lmplz is None:
        raise SystemExit("lmplz is not on the path: pip's kenlm brings no trainer, build it")
    with tempfile.TemporaryDirectory() as folder:
        text, arpa = Path(folder, "text"), Path(folder, "arpa")
        text.write_text(Path(task["text"]).read_text().replace("<unk>", "<rare>"))
        times = []
        for _ in range(task["repeats"]):
            began = time.perf_counter()
            with text.open() as source, arpa.open("w") as target:
                command = [lmplz, "-o", str(task["order"]), "--discount_fallback", "-S", "20%"]
                subprocess.run(command, stdin=source, stdout=target, check=True)
            times.append(time.perf_counter() - began)
        print(json.dumps({"seconds": min(times), "note": "ARPA written too"}))


if __name__ == "__main__":
    main()
