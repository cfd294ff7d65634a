"""NLTK's TnT with its own suffix model for new words.  A problem on stdin, an answer on stdout."""

from nltk.tag.tnt import TnT
from tagger_work import answer, best_of, read_problem, sentences, timed


def main():
    problem = read_problem()
    train = [list(zip(own, tags, strict=True)) for own, tags in sentences(problem, "train")]
    words = [own for own, _ in sentences(problem, "test")]
    model = TnT()
    _, training = timed(lambda: model.train(train))

    def tagged():
        return [[tag for _, tag in model.tag(own)] for own in words]

    predicted, tagging = best_of(1, tagged)
    answer(train=training, tag=tagging, predicted=predicted)


main()
