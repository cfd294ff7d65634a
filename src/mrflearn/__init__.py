"""Learn Markov random fields: language models, CRFs on any graph, lattices, composite grammars.

Names are loaded on first use, so that `import mrflearn` itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrflearn.estimators.field import MarkovField
    from mrflearn.estimators.loading import load
    from mrflearn.estimators.potts import PottsField
    from mrflearn.estimators.structure import FieldStructure

__version__ = "0.1.0.dev0"

__all__ = ["FieldStructure", "MarkovField", "PottsField", "__version__", "load"]

_HOMES = {
    "FieldStructure": "mrflearn.estimators.structure",
    "MarkovField": "mrflearn.estimators.field",
    "PottsField": "mrflearn.estimators.potts",
    "load": "mrflearn.estimators.loading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mrflearn' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
