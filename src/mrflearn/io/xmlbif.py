"""XMLBIF files: Bayesian networks with named variables and labelled states, in XML.

The XML-based Interchange Format, version 0.3, as GeNIe, JavaBayes, SamIam, Weka, pgmpy and pyAgrum
write it.  In a table the variable itself changes fastest, then the last of those given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from mrflearn.errors import DataError
from mrflearn.io.bif import assembled, check_sums
from mrflearn.io.files import PathLike, located, read_bytes, to_number, write_text
from mrflearn.io.uai import MOST_AXES, Table, UaiNetwork

TEXTS = {"NAME", "OUTCOME", "FOR", "GIVEN", "TABLE"}  # elements of text; others are skipped
HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<BIF VERSION="0.3">
<NETWORK>
<NAME>unknown</NAME>
"""


class XmlbifHandler:
    """Takes in the elements of a file as they end."""

    def __init__(self) -> None:
        self.labels: dict[str, tuple[str, ...]] = {}
        self.definitions: list[tuple[int, dict[str, list[str]]]] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._entity
        self._path: list[str] = []
        self._text: list[str] = []
        self._inside: dict[str, list[str]] = {}

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = tag.upper()
        if not self._path and tag != "BIF":
            raise DataError(f"the file should start with <BIF>, not <{tag[:40]}>.")
        if tag == "VARIABLE" and attributes.get("TYPE", "nature") != "nature":
            raise DataError("decisions and utilities are no part of a Bayesian network.")
        self._path.append(tag)
        self._text = []
        if tag in ("VARIABLE", "DEFINITION"):
            self._inside = {}

    def _characters(self, text: str) -> None:
        self._text.append(text)

    def _entity(self, name: str, *_: object) -> None:
        raise DataError(f"the entity {name!r} is declared; entities of a file's own are not read.")

    def _end(self, tag: str) -> None:
        tag = self._path.pop()
        within = self._path[-1] if self._path else ""
        if tag in TEXTS and within in ("VARIABLE", "DEFINITION"):
            self._inside.setdefault(tag, []).append("".join(self._text).strip())
        elif tag == "VARIABLE":
            self._variable()
        elif tag == "DEFINITION":
            self.definitions.append((self.parser.CurrentLineNumber, self._inside))
        self._text = []

    def _variable(self) -> None:
        names, labels = self._inside.get("NAME", []), self._inside.get("OUTCOME", [])
        if len(names) != 1 or not names[0]:
            raise DataError("a VARIABLE has one NAME.")
        if names[0] in self.labels:
            raise DataError(f"the variable {names[0]!r} is there twice.")
        if not labels or len(set(labels)) < len(labels):
            raise DataError(f"the states of {names[0]!r} need an OUTCOME each, all different.")
        self.labels[names[0]] = tuple(labels)

    def network(self) -> UaiNetwork:
        """What was read, once all of it is there."""
        number = {name: i for i, name in enumerate(self.labels)}
        found: dict[str, tuple[tuple[int, ...], Table]] = {}
        for line, own in self.definitions:
            try:
                child, scope, table = self._definition(own)
                if child in found:
                    raise DataError(f"{child!r} has two definitions.")
            except DataError as error:
                error.line = line
                raise
            found[child] = tuple(number[name] for name in scope), table
        return assembled(self.labels, found)

    def _definition(self, own: dict[str, list[str]]) -> tuple[str, list[str], Table]:
        if len(own.get("FOR", [])) != 1 or len(own.get("TABLE", [])) != 1:
            raise DataError("a DEFINITION is FOR one variable, and has one TABLE.")
        child = own["FOR"][0]
        scope = [*own.get("GIVEN", []), child]
        for name in scope:
            if name not in self.labels:
                raise DataError(f"no variable is called {name!r}.")
        if len(set(scope)) < len(scope) or len(scope) > MOST_AXES:
            raise DataError(f"{child!r} is given the same variable twice, or too many.")
        shape = tuple(len(self.labels[name]) for name in scope)
        words = own["TABLE"][0].split()
        if len(words) != math.prod(shape):
            raise DataError(f"{child!r}: {math.prod(shape)} probabilities, not {len(words)}.")
        values = np.array([to_number(word) for word in words]).reshape(shape)
        if not np.isfinite(values).all() or (values < 0).any():
            raise DataError(f"the table of {child!r} has an entry that is no probability.")
        check_sums(child, values)
        return child, scope, values


def read_xmlbif(path: PathLike) -> UaiNetwork:
    """The Bayesian network of an `.xmlbif` or `.xml` file, with its names and labels.

    Axes of a table are the parents in the order of the file, then the variable itself.
    """
    content = read_bytes(path)
    with located(path):
        handler = XmlbifHandler()
        try:
            handler.parser.Parse(content, True)
            return handler.network()
        except DataError as error:
            error.locate(path, handler.parser.CurrentLineNumber)
            raise
        except expat.ExpatError as error:
            problem = f"this is no XML: {expat.ErrorString(error.code)}."
            raise DataError(problem, line=error.lineno) from error
        except (LookupError, ValueError) as error:  # of an encoding that Python lacks
            raise DataError(f"the file cannot be decoded: {error}.", line=1) from error


def write_xmlbif(path: PathLike, network: UaiNetwork) -> None:
    """Writes an XMLBIF file that reads back to exactly the same figures.

    Only a Bayesian network can be written, one table for each variable.
    """
    conditionals = network.conditionals()
    with write_text(path) as stream:
        stream.write(HEADER)
        for v in range(len(network.states)):
            outcomes = "".join(
                f"  <OUTCOME>{_text(own)}</OUTCOME>\n" for own in network.labels_of(v)
            )
            name = _text(network.name(v))
            stream.write(
                f'<VARIABLE TYPE="nature">\n  <NAME>{name}</NAME>\n{outcomes}</VARIABLE>\n'
            )
        for v in range(len(network.states)):
            scope, table = conditionals[v]
            given = "".join(f"  <GIVEN>{_text(network.name(u))}</GIVEN>\n" for u in scope[:-1])
            values = " ".join(map(repr, table.ravel().tolist()))
            stream.write(f"<DEFINITION>\n  <FOR>{_text(network.name(v))}</FOR>\n{given}")
            stream.write(f"  <TABLE>{values}</TABLE>\n</DEFINITION>\n")
        stream.write("</NETWORK>\n</BIF>\n")


def _text(name: str) -> str:
    """A name as text of an element."""
    if name != name.strip() or any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in name):
        raise DataError(f"the name {name!r} begins or ends with space, or has control characters.")
    return escape(name)
