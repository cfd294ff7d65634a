"""The one exception of `mrflearn.errors` that needs scikit-learn."""

from __future__ import annotations

from sklearn import exceptions

from mrflearn.errors import MrflearnError


class NotFittedError(MrflearnError, exceptions.NotFittedError):  # type: ignore[misc]
    """An estimator was asked for an answer before `fit` or `load`; scikit-learn's error too."""

    __module__ = "mrflearn.errors"
