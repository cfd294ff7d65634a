"""mrflearn's CRF.  A problem on stdin, an answer on stdout."""

from crf_work import Clock, answer, best_of, read_problem, sentences


def main():
    problem = read_problem()
    import torch

    from mrflearn.estimators.crf import CRF
    from mrflearn.features.features import compile_features

    torch.set_num_threads(1)
    labels = []

    def items():
        for own, gold in sentences(problem, "train"):
            labels.append(gold)
            yield own

    given = list(items()) if problem.get("compile") else items()
    with Clock() as reading:
        features = compile_features(given)
    model = CRF(c2=problem["c2"], n_jobs=problem["cores"])
    if problem["iterations"]:
        # Exactly this many: the stopping rules are switched off.
        model.set_params(epsilon=1e-300, delta=1e-300, max_iterations=problem["iterations"])
    with Clock() as training:
        model.fit(features, labels)
    if problem.get("compile"):
        training.wall += reading.wall
        training.cpu += reading.cpu
    tests = [own for own, _ in sentences(problem, "test")] if problem["tag"] else []
    predicted, tagging = best_of(5, lambda: model.predict(tests))
    answer(
        reading=reading.wall,
        train=training.wall,
        train_cpu=training.cpu,
        tag=tagging,
        objective=model.outcome_.value,
        iterations=model.outcome_.iterations,
        predicted=predicted.tolist(),
    )


main()
