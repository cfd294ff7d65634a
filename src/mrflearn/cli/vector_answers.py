"""What the verbs `evaluate` and `inspect` say of word vectors."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from mrflearn.cli.answers import say, say_json, say_table
from mrflearn.cli.pictures import keep
from mrflearn.errors import DataError

WORDS_ON_MAP = 120


def evaluate_vectors(model: Any, file: Path, as_json: bool) -> None:
    """Tells the agreement with people's scores of word pairs, or the analogies answered right."""
    from mrflearn.evaluation.similarity import CosineSpace

    space = CosineSpace(model.vocabulary_.words, model.vectors_)
    try:
        answer = _analogies(space, file) if _asks_analogies(file) else _likeness(space, file)
    except DataError as error:
        if not hasattr(model, "log_likelihood"):
            raise
        hint = "The vectors of this language model are judged; `mrflearn score` rates a text."
        problem = f"{error.problem} {hint}"
        raise DataError(problem, path=error.path, line=error.line) from error
    if as_json:
        say_json(answer)
        return
    if "spearman" in answer:
        say(f"Spearman's rank correlation with people's scores: {answer['spearman']:.3f}")
        say(f"{answer['pairs']:,} of {answer['of']:,} pairs have both words in the vocabulary")
        return
    say(f"analogies answered right: {100 * answer['accuracy']:.1f} %")
    say(f"{answer['answerable']:,} of {answer['of']:,} have all four words in the vocabulary")


def inspect_vectors(model: Any, top: int, plot: Path | None, as_json: bool) -> None:
    """Tells the size of the vectors, and the most frequent words with their nearest."""
    if plot is not None:
        draw_map(model, model.frequent_words(max(top, WORDS_ON_MAP)), plot)
    near = {word: [w for w, _ in model.neighbors(word, 5)] for word in model.frequent_words(top)}
    figures = {
        "class": type(model).__name__,
        "vocabulary": len(model.vocabulary_),
        "dims": model.dims,
        "context": model.context,
    }
    if as_json:
        say_json({**figures, "nearest": near})
        return
    say_table(["", "value"], [[name, str(value)] for name, value in figures.items()])
    say()
    say("frequent words, and the nearest to each:")
    for word, found in near.items():
        say(f"{word}: {' '.join(found)}")


def draw_map(model: Any, words: list[str], path: Path) -> None:
    """Draws the words, each once, at the two leading directions of their vectors."""
    from mrflearn.plots.language_model import vector_map

    once = list(dict.fromkeys(words))
    place = {word: index for index, word in enumerate(model.vocabulary_.words)}
    keep(vector_map(once, model.vectors_[[place[word] for word in once]]), path)


def _likeness(space: Any, file: Path) -> dict[str, Any]:
    from mrflearn.evaluation.similarity import likeness
    from mrflearn.io.similarity import read_pairs

    found = likeness(space, read_pairs(file))
    if found.pairs < 3:
        raise DataError(
            f"{found.pairs} of {found.of} pairs have both words in the vocabulary; a correlation "
            "needs three.",
            path=file,
        )
    return {"spearman": found.spearman, "pairs": found.pairs, "of": found.of}


def _analogies(space: Any, file: Path) -> dict[str, Any]:
    from mrflearn.evaluation.similarity import analogies
    from mrflearn.io.similarity import read_analogies

    found = analogies(space, read_analogies(file))
    if not found.answerable:
        raise DataError(
            f"none of {found.of} questions has all its words in the vocabulary.", path=file
        )
    return {"accuracy": found.accuracy, "answerable": found.answerable, "of": found.of}


def _asks_analogies(file: Path) -> bool:
    """Whether the first line that says anything is one of questions, not of pairs."""
    from mrflearn.io.files import read_lines

    with closing(read_lines(file)) as lines:
        for _, line in lines:
            cells = line.split()
            if cells:
                return cells[0] == ":" or (len(cells) == 4 and not _is_number(cells[2]))
    return False


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
