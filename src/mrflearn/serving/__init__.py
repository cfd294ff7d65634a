"""Models behind a small local web page."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.serving.server import make_server as make_server
    from mrflearn.serving.service import Service as Service

__getattr__, __dir__ = lazy(__name__)
