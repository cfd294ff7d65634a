"""python-crfsuite.  A problem on stdin, an answer on stdout."""

import re
import tempfile
from pathlib import Path

import pycrfsuite
from crf_work import Clock, answer, best_of, read_problem, sentences


class Trainer(pycrfsuite.Trainer):
    log = ""

    def message(self, text):
        self.log += text


def main():
    problem = read_problem()
    trainer = Trainer(verbose=True)
    given = sentences(problem, "train")
    if problem.get("compile"):
        given = list(given)
    with Clock() as reading:
        for items, labels in given:
            trainer.append(items, labels)
    trainer.select("lbfgs", "crf1d")
    trainer.set_params({"c1": 0.0, "c2": problem["c2"]})
    if problem["iterations"]:
        # Exactly this many: the stopping rules are switched off.
        fixed = {"epsilon": 1e-300, "delta": 1e-300, "max_iterations": problem["iterations"]}
        trainer.set_params(fixed)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        with Clock() as training:
            trainer.train(model)
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        tests = [items for items, _ in sentences(problem, "test")] if problem["tag"] else []
        predicted, tagging = best_of(5, lambda: [tagger.tag(items) for items in tests])
        tagger.close()
    if problem.get("compile"):
        training.wall += reading.wall
        training.cpu += reading.cpu
    answer(
        reading=reading.wall,
        train=training.wall,
        train_cpu=training.cpu,
        tag=tagging,
        objective=float(re.findall(r"Loss: ([\d.]+)", trainer.log)[-1]),
        iterations=len(re.findall(r"Iteration #", trainer.log)),
        predicted=predicted,
    )


main()
