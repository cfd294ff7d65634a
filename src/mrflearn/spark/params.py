"""Params of columns, by the names that `pyspark.ml` gives them, and of arguments of estimators.

An argument of an estimator is written once, in its signature and docstring; its Param has the same
name, default and text.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from pyspark.ml.param import Param, Params, TypeConverters

from mrflearn.errors import SettingsError
from mrflearn.estimators.arguments import documented

# Arguments that are functions, files of this machine, or without effect.
NOT_PARAMS = {
    "calibration_max_trials",
    "callbacks",
    "keep_tempfiles",
    "linesearch",
    "max_linesearch",
    "model_filename",
    "trainer_cls",
    "warm_start",
}


class Settings(Params):  # type: ignore[misc]  # pyspark is not always there to be typed
    """Params that are set by keywords; those of columns have getters and setters, too.

    `columns` are the names of those that a class adds, their defaults and texts; `fits` is the
    estimator whose arguments become Params.
    """

    columns: ClassVar[dict[str, tuple[str | None, str]]] = {}
    fits: ClassVar[type | None] = None
    arguments: ClassVar[tuple[str, ...]] = ()  # the names of those

    def __init_subclass__(cls, fits: type | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if fits is not None:
            cls.fits, cls.arguments = fits, tuple(name for name, _ in _arguments(fits))
            texts = documented(fits)
            for name, _ in _arguments(fits):
                setattr(cls, name, Param(Params._dummy(), name, texts[name][1]))
        for name, (_, text) in vars(cls).get("columns", {}).items():
            several = name.endswith("Cols")
            convert = TypeConverters.toListString if several else TypeConverters.toString
            setattr(cls, name, Param(Params._dummy(), name, text, convert))
            _add_accessors(cls, name)

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        for own in reversed(type(self).__mro__):
            columns = vars(own).get("columns", {})
            self._setDefault(**{name: usual for name, (usual, _) in columns.items() if usual})
        if self.fits is not None:
            self._setDefault(**dict(_arguments(self.fits)))
        self.setParams(**settings)

    def setParams(self, **settings: Any) -> Self:  # noqa: N802 - pyspark's name
        """Sets Params by their names."""
        for name in settings:
            if not self.hasParam(name):
                known = ", ".join(own.name for own in self.params)
                raise SettingsError(f"{type(self).__name__} has no Param {name!r}; it has {known}.")
        self._set(**settings)
        return self

    def _given(self, name: str) -> Any:
        """The value of a Param; None where it has none."""
        return self.getOrDefault(name) if self.isDefined(name) else None

    def _needed(self, name: str, dataset: Any) -> str:
        """The name of a column, which the DataFrame has."""
        found: str = self.getOrDefault(name)
        check_columns(dataset, [found], f"{name}=...")
        return found


def check_columns(dataset: Any, names: list[str], remedy: str) -> None:
    """`SettingsError` where a column is not there."""
    for name in names:
        if name not in dataset.columns:
            there = ", ".join(dataset.columns)
            raise SettingsError(f"there is no column '{name}'; there are {there}. Set {remedy}")


def _arguments(estimator: type) -> Iterator[tuple[str, Any]]:
    """The arguments that are Params, with their defaults."""
    for name, own in inspect.signature(estimator).parameters.items():
        if name not in NOT_PARAMS and own.kind is not own.VAR_KEYWORD:
            yield name, own.default


def _add_accessors(cls: type, name: str) -> None:
    """`getXCol` and `setXCol`, as every class of `pyspark.ml` has them."""
    title = name[0].upper() + name[1:]

    def get(self: Any) -> Any:
        return self.getOrDefault(name)

    def set_(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    get.__doc__, set_.__doc__ = f"The value of {name}.", f"Sets {name}."
    for own, function in ((f"get{title}", get), (f"set{title}", set_)):
        function.__name__ = own
        setattr(cls, own, function)
