"""How sentences become items for a CRF, and files sentences.

A model keeps its recipe, so that it can be asked about words and files as it was trained on them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import repeat
from string import ascii_lowercase, ascii_uppercase, digits
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.index import edge
from mrflearn.io.corpus import read_sentences
from mrflearn.io.crfsuite_text import read_crfsuite
from mrflearn.io.files import Lines, PathLike
from mrflearn.io.formats import ColumnSentence, as_columns, first_columns, sentence_format
from mrflearn.io.grmm import read_grmm

FOREIGN = (
    "matplotlib",
    "networkx",
    "numba",
    "numpy",
    "pyarrow",
    "pyspark",
    "scipy",
    "sklearn",
    "torch",
)
MADE = {"crfsuite": "CRFsuite's text", "grmm": "GRMM's text"}


class LabelledSequence(NamedTuple):
    """A sequence: its tokens, their labels in every layer where the file has them, and its rows.

    Tokens are words, or rows of the columns that are looked at.  CRFsuite's text and GRMM's have
    items in place of words: their rows are empty.
    """

    tokens: list[Any]
    layers: tuple[tuple[str, ...], ...] | None
    rows: tuple[tuple[str, ...], ...]
    document: int = 0

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels of the first layer, where the file has them."""
        return None if self.layers is None else self.layers[0]


Function: TypeAlias = Callable[[Any], Sequence[Any]]  # from a sentence to its items


@dataclass(frozen=True)
class Recipe:
    """What is looked at in a sentence, and where sentences and labels stand in a file.

    format: `"columns"`, or another of sentences (`"conllu"`, `"tagged"`, ...), or one that has its
        features made: `"crfsuite"`, `"grmm"`.
    columns: the names of all columns in order; labels: the one to be learned.
    template: the lines of a CRF++ or Wapiti template, whose columns are those without the labels;
        None takes `word_features` of all other columns, the first being the word.
    further: the columns that are learned together with `labels`, by a factorial CRF.
    function: what makes the items of a sentence instead, or its name: `"module:function"`.
    """

    format: str = "columns"
    columns: tuple[str, ...] = ()
    labels: str = ""
    template: tuple[str, ...] | None = None
    further: tuple[str, ...] = ()
    function: str | Function | None = None

    @classmethod
    def made_by(cls, features: Features) -> Recipe:
        """The recipe that the argument `features` of an estimator stands for."""
        if isinstance(features, Recipe):
            return features
        if features == "words":
            return cls()
        if isinstance(features, str) and "%x[" in features:
            lines = tuple(features.splitlines())
            Templates.of(lines)
            return cls(template=lines)
        if callable(features) or (isinstance(features, str) and ":" in features):
            return cls(function=features)
        raise SettingsError(
            f"features={features!r:.80} makes no features: give 'words', lines of a CRF++ template "
            "(U00:%x[0,0]), a function from a sentence to its items, or its name 'module:function'."
        )

    @classmethod
    def of(
        cls,
        path: PathLike,
        *,
        format: str | None = None,  # noqa: A002 - the word users know
        columns: Sequence[str] | None = None,
        labels: str | Sequence[str] | None = None,
        template: PathLike | None = None,
        features: Features | None = None,
    ) -> Recipe:
        """The recipe for a file: what is not given is read off its name and its first line.

        Without `labels` the last column is learned, of CoNLL-U `upos`; without `columns` words are
        all that is looked at in CoNLL-U.
        """
        kind = format or sentence_format(path, "columns")
        layers = (labels,) if isinstance(labels, str) else tuple(labels or ())
        made = cls() if features is None else cls.made_by(features)
        if template is not None:
            if features is not None:
                raise SettingsError("features are made by a template or by a function, not both.")
            made = cls(template=read_template(template))
        if kind in MADE:
            if columns or template or features or (layers and kind == "crfsuite"):
                raise DataError(f"{MADE[kind]} has its features made: no columns, no template.")
            layers = _layer_names(path, layers) if kind == "grmm" else ("",)
            return cls(kind, labels=layers[0], further=layers[1:])
        names = tuple(columns) if columns else _first_columns(path, kind)
        layers = layers or (("upos",) if kind == "conllu" and "upos" in names else names[-1:])
        _check_layers(layers, names)
        if kind == "conllu" and not columns:
            # Its other tags were given by the same hand, and plain text has none.
            names = tuple(name for name in names if name in (names[0], *layers))
        recipe = cls(kind, names, layers[0], made.template, layers[1:], made.function)
        if recipe.template is not None and recipe._templates.columns > len(recipe.seen):
            raise DataError(
                f"the template reads column {recipe._templates.columns - 1} (counted from 0), but "
                f"without the labels there are {len(recipe.seen)}: {', '.join(recipe.seen)}."
            )
        return recipe

    def for_files(self, sentence: Any, layers: int = 1) -> Recipe:
        """The same, with columns as a file of sentences such as this one has them, labels last.

        A sentence of anything but words or rows of words stands in no file: no columns then.
        """
        token = None if self.columns or self.format in MADE else next(iter(sentence), None)
        cells = [token] if isinstance(token, str) else token
        if not cells or not isinstance(cells, list | tuple) or not isinstance(cells[0], str):
            return self
        names = ("word", *(f"column{number}" for number in range(2, len(cells) + 1)))
        labels = ("label",) if layers == 1 else tuple(f"layer{1 + k}" for k in range(layers))
        return replace(self, columns=names + labels, labels=labels[0], further=labels[1:])

    def __call__(self, sentence: Sequence[Any]) -> Sequence[Any]:
        """The items of a sentence: of words, or of rows of the columns that are looked at."""
        if isinstance(sentence, str):
            raise DataError(f"a sentence is a list of words, not the text {sentence!r:.40}.")
        if self.format in MADE:
            return sentence
        if self._function is not None:
            return self._function(sentence)
        if not sentence:
            return []
        columns = _columns(sentence)
        if self.columns and len(columns) != len(self.seen):
            raise DataError(
                f"a token has {len(columns)} cells; the model looks at {', '.join(self.seen)}."
            )
        if self.template is not None:
            return self._templates(columns)
        return _word_features(columns, self.seen[1:])

    @cached_property
    def _function(self) -> Function | None:
        return find_function(self.function) if isinstance(self.function, str) else self.function

    def settings(self) -> dict[str, Any]:
        """Plain values, for a model's configuration; `SettingsError` for a nameless function."""
        named = self.function is None or isinstance(self.function, str)
        return asdict(self) | {"function": self.function if named else function_name(self.function)}

    @property
    def seen(self) -> tuple[str, ...]:
        """The columns that are looked at."""
        return tuple(name for name in self.columns if name not in self.layers)

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of all label layers."""
        return (self.labels, *self.further)

    def read(self, path: PathLike, *, format: str | None = None) -> Iterator[LabelledSequence]:  # noqa: A002
        """The sequences of a file, one at a time; a file of columns may lack the labels' one."""
        kind = format or (self.format if str(path) == "-" else sentence_format(path, self.format))
        if kind != self.format and (kind in MADE or self.format in MADE):
            problem = f"this is {kind}, but the model was trained on {self.format}."
            raise DataError(problem, path=path)
        if kind in MADE:
            yield from self._made(path, kind)
            return
        for sentence in self._sentences(path, kind):
            seen = [sentence[name] for name in self.seen]
            tokens = list(seen[0]) if len(seen) == 1 else list(zip(*seen, strict=True))
            known = all(name in sentence.names for name in self.layers)
            layers = tuple(sentence[name] for name in self.layers) if known else None
            yield LabelledSequence(tokens, layers, sentence.rows, sentence.document)

    def labelled(self, path: PathLike) -> tuple[Iterator[list[Any]], list[tuple[str, ...]]]:
        """The sentences of a file as they are read, and a list that fills with their labels."""
        labels: list[tuple[str, ...]] = []

        def sentences() -> Iterator[list[Any]]:
            for example in self.layered(path):
                labels.append(example.labels or ())
                yield example.tokens

        return sentences(), labels

    def layered(self, path: PathLike) -> Iterator[LabelledSequence]:
        """The sequences of a file, which must have labels in every layer."""
        example = None
        for example in self.read(path):
            if example.layers is None:
                problem = f"labels are missing: there is no column for {', '.join(self.layers)}."
                raise DataError(problem, path=path)
            yield example
        if example is None:
            raise DataError("there are no sentences in it.", path=path)

    def words(self, sentence: Sequence[Any]) -> list[str]:
        """The words of a sentence, which a rule for skip edges reads."""
        if self.format in MADE:
            raise DataError(
                "its features are made and its words are gone; a skip chain needs the words, as "
                "files of columns have them."
            )
        return [token[0] if isinstance(token, list | tuple) else token for token in sentence]

    def _made(self, path: PathLike, kind: str) -> Iterator[LabelledSequence]:
        """The sequences of a file that has its features made."""
        if kind == "crfsuite":
            for sequence in read_crfsuite(path):
                yield LabelledSequence(sequence.features, (sequence.labels,), ((),) * len(sequence))
            return
        for tokens in read_grmm(path):
            if tokens.layers and len(tokens.layers) != len(self.layers):
                problem = f"{len(tokens.layers)} labels a token where the model has the layers "
                raise DataError(f"{problem}{', '.join(self.layers)}.", path=path)
            items = [list(own) for own in tokens.features]
            yield LabelledSequence(items, tokens.layers or None, ((),) * len(tokens))

    def _sentences(self, path: PathLike, kind: str) -> Iterator[ColumnSentence]:
        if kind != "text":
            return as_columns(path, kind, (self.columns, self.seen))
        if len(self.seen) != 1:
            raise DataError(f"text has words alone; the model looks at {', '.join(self.seen)}.")
        return (ColumnSentence(self.seen, (tuple(own),)) for own in read_sentences(path))

    @cached_property
    def _templates(self) -> Templates:
        return Templates.of(self.template or ())


Features: TypeAlias = Recipe | str | Function  # as estimators take them


def find_function(name: str, what: str = "features") -> Function:
    """The function of that name, `"module:function"`, which makes features or something else.

    The name may come from a model file: nothing of Python's own library or of the packages that
    this one builds on is imported for it, and only a function that its module defines is taken.
    """
    module, _, path = name.partition(":")
    if module.partition(".")[0] in {*sys.stdlib_module_names, *FOREIGN}:
        raise SettingsError(f"the {what} '{name}' will not do: {module} makes no {what}.")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"the {what} '{name}' cannot be imported ({error}). Where is {module}.py? Put its "
            "folder on the path, as in `PYTHONPATH=. mrflearn ...`, or install its package."
        ) from error
    if not isinstance(found, FunctionType) or found.__module__ != module:
        raise SettingsError(
            f"the {what} '{name}' will not do: name a function, by the module that defines it."
        )
    return found


def function_name(function: Any, what: str = "features") -> str:
    """`"module:function"`, by which it can be imported; `SettingsError` where it cannot."""
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    with suppress(SettingsError):
        if not name.startswith("__main__:") and find_function(name) is function:
            return name
    raise SettingsError(
        f"a stored model names the function that makes its {what}, and {function!r:.80} cannot "
        f"be imported by a name. Define it in a module of its own, such as my_{what}.py, and "
        f"before `save` call set_params({what}='my_{what}:FUNCTION')."
    )


def _check_layers(layers: tuple[str, ...], names: tuple[str, ...]) -> None:
    for name in layers:
        if name not in names:
            hint = "; columns=... names them" if "column2" in names else ""
            raise DataError(f"there is no column '{name}'; there are {', '.join(names)}{hint}.")
    if len(set(layers)) < len(layers) or len(layers) == len(names):
        raise DataError(
            f"the labels {', '.join(layers)} of the columns {', '.join(names)}: each can be "
            "learned once, and a column must be left to look at."
        )


def _layer_names(path: PathLike, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Names for the layers of GRMM's text: those wanted, or `layer1`, `layer2` and so on."""
    if str(path) == "-" and wanted:
        return wanted
    with closing(read_grmm(path)) as sequences:
        found = next((len(tokens.layers) for tokens in sequences), 0)
    if not found:
        raise DataError("there is no token to learn from.", path=path)
    if wanted and len(wanted) != found:
        problem = f"there are {found} labels a token, and {len(wanted)} names: name all, or none."
        raise DataError(problem, path=path)
    return wanted or tuple(f"layer{number}" for number in range(1, found + 1))


def _first_columns(path: PathLike, kind: str) -> tuple[str, ...]:
    if str(path) == "-" or kind == "columns":
        return first_columns(path, "label")
    for sentence in as_columns(path, kind, ()):
        return sentence.names
    raise DataError("there is no sentence in it.", path=path)


# A small feature set for words: what most taggers and chunkers begin with.


_SHAPE = str.maketrans(ascii_uppercase + ascii_lowercase + digits, "A" * 26 + "a" * 26 + "0" * 10)
_RUN = re.compile(r"(.)\1+")
LONGEST_AFFIX = 4
WINDOW = (-2, -1, 0, 1, 2)


def word_features(sentence: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """The attributes of each token of a sentence.

    A token is a word, or a sequence whose first cell is the word and whose other cells (a part of
    speech, say) become features too.  For each token: the word two before to two after and its
    pairs with its neighbours; its lower-case form, prefixes and suffixes of up to 4 letters,
    shape, digits and capitals; every further column in the same window, with its pairs, as
    `column2[0]=NN` (by its name, `pos[0]=NN`, in models that know the names of columns).
    """
    return _word_features(_columns(sentence)) if sentence else []


def _columns(sentence: Sequence[str | Sequence[str]]) -> list[tuple[str, ...]]:
    """The columns of a sentence that has tokens: words, or rows of cells."""
    for token in sentence:
        if isinstance(token, Mapping) or not isinstance(token, Iterable):
            raise DataError(f"a token is a word, or a row of cells, and not {token!r:.40}.")
    tokens = [(token,) if isinstance(token, str) else tuple(token) for token in sentence]
    width = len(tokens[0])
    if not width or any(len(token) != width for token in tokens):
        raise DataError("every token needs the same number of cells, at least the word itself.")
    return list(zip(*tokens, strict=True))


def _word_features(
    columns: Sequence[Sequence[str]], further: Sequence[str] = ()
) -> list[list[str]]:
    """Those of words and of the `further` columns by name; column2, column3 without names."""
    result = [["bias", *_spelling(word)] for word in columns[0]]
    names = further or [f"column{number}" for number in range(2, len(columns) + 1)]
    for name, column in zip(("w", *names), columns, strict=True):
        _add_window(name, column, result)
    return result


def _spelling(word: str) -> list[str]:
    found = [f"lower={word.lower()}", f"shape={word_shape(word)}"]
    for length in range(1, min(LONGEST_AFFIX, len(word) - 1) + 1):
        found += (f"prefix={word[:length]}", f"suffix={word[-length:]}")
    if any(letter.isdigit() for letter in word):
        found.append("digit")
    if "-" in word:
        found.append("hyphen")
    if word[:1].isupper():
        found.append("capitals" if word.isupper() else "capital")
    return found


def word_shape(word: str) -> str:
    """Capitals as A, small letters as a, digits as 0, runs of more than one cut to two."""
    return _RUN.sub(r"\1\1", word.translate(_SHAPE))


def _add_window(name: str, column: Sequence[str], result: list[list[str]]) -> None:
    last = len(column) - 1
    for position, own in enumerate(result):
        for offset in WINDOW:
            place = position + offset
            if 0 <= place <= last:
                own.append(f"{name}[{offset}]={column[place]}")
            elif abs(offset) == 1:
                own.append(f"{name}[{offset}]=<end>" if offset > 0 else f"{name}[{offset}]=<start>")
        if position:
            own.append(f"{name}[-1,0]={column[position - 1]}|{column[position]}")
        if position < last:
            own.append(f"{name}[0,1]={column[position]}|{column[position + 1]}")


# Feature templates of CRF++ and Wapiti, applied to columns.
#
# A template is a line such as `U05:%x[-1,0]/%x[0,0]` (CRF++) or `u:word=%x[-1,0]` (Wapiti): each
# `%x[row,column]` stands for the cell so many tokens away.  Beyond the ends of a sequence stand the
# marks of CRF++: `_B-1`, `_B-2` before it, `_B+1`, `_B+2` after it.  A line that begins with `B` or
# `b` makes attributes of the transition into the token; if it reads no cells it asks for plain
# transitions, which a chain always has.  Wapiti's `*` is `u` and `b` at once; `#` begins a comment.


_CELL = re.compile(r"%x\[\s*(-?0*\d{1,3})\s*,\s*(0*\d{1,3})\s*\]")
_OTHER = re.compile(r"%[a-zA-Z]")


# The text of an attribute with `%s` for each cell, and the cells: (row, column).
FeatureTemplate = tuple[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Templates:
    """The templates of a file, in its order."""

    templates: tuple[FeatureTemplate, ...]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Templates:
        """The templates that the lines of a file hold."""
        return cls(tuple(made for line in lines for made in parse_template(line)))

    @property
    def columns(self) -> int:
        """How many columns the templates need."""
        return 1 + max((column for _, cells in self.templates for _, column in cells), default=-1)

    def __call__(self, columns: Sequence[Sequence[str]]) -> list[list[str]]:
        """The attributes of each token of a sentence that is given by columns."""
        if len(columns) < self.columns or not columns:
            raise DataError(
                f"the templates read column {self.columns - 1} (counted from 0), but there are "
                f"{len(columns)} columns."
            )
        result: list[list[str]] = [[] for _ in columns[0]]
        for text, cells in self.templates:
            parts = [_shifted(columns[column], row) for row, column in cells]
            made = map(text.__mod__, zip(*parts, strict=True)) if cells else repeat(text)
            for own, attribute in zip(result, made, strict=False):
                own.append(attribute)
        return result


def read_template(path: PathLike) -> tuple[str, ...]:
    """The lines of a CRF++ or Wapiti file, each of which is understood."""
    with Lines(path) as lines:
        return tuple(line for line in lines if parse_template(line) is not None)


def parse_template(line: str) -> list[FeatureTemplate]:
    """The templates of one line; none for blank lines, comments and plain transitions."""
    text = line.strip()
    if not text or text.startswith("#"):
        return []
    cells = tuple((int(row), int(column)) for row, column in _CELL.findall(text))
    kind = text[0]
    if kind not in "UuBb*":
        raise DataError(f"'{text}' is no template: it should begin with U, u, B, b or *.")
    if other := _OTHER.search(_CELL.sub("", text)):
        raise DataError(
            f"'{other.group()}' in '{text}': only %x[row,column] is understood, with at most three "
            "digits in each number."
        )
    form = "%s".join(piece.replace("%", "%%") for piece in _CELL.split(text)[::3])
    made = []
    if kind in "Uu*":
        made.append((form, cells) if cells else (text, ()))
    if kind in "Bb*" and cells:
        made.append((edge(form), cells))
    return made


def _shifted(cells: Sequence[str], row: int) -> list[str]:
    """The cell `row` tokens on from each token; marks beyond the ends."""
    length = len(cells)
    if row < 0:
        before = [f"_B{position}" for position in range(row, 0)]
        return [*before, *cells][:length]
    after = [f"_B+{position}" for position in range(1, row + 1)]
    return [*cells, *after][row : row + length]
