"""mrflearn's taggers.  A problem on stdin, an answer on stdout."""

from tagger_work import answer, best_of, read_problem, sentences, timed


def main():
    problem = read_problem()
    from mrflearn import HMMTagger, JointTagger

    model = JointTagger() if problem["kind"] == "joint" else HMMTagger(problem["order"])
    train, test = sentences(problem, "train"), sentences(problem, "test")
    words = [own for own, _ in test]

    def learned():
        model.fit([own for own, _ in train], [tags for _, tags in train])
        return model.predict(words[:1])  # tables that are made on first use belong to training

    _, training = timed(learned)
    predicted, tagging = best_of(3, lambda: model.predict(words))
    answer(train=training, tag=tagging, predicted=predicted)


main()
