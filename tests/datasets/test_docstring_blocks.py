"""Paragraphs of docstrings: prose stays; code, tables, fields and headings go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.datasets.docstrings import paragraphs

NUMPYDOC = """
    Returns the convolution of two
    sequences.

    Parameters
    ----------
    a : (N,) array_like
        First input array.

    Returns
    -------
    out : ndarray
        The result. It is new.

    Notes
    -----
    It is often seen in signal processing.

    .. math:: (a * v)_n = 0

    References
    ----------
    .. [1] Somebody, "A book".

    Examples
    --------
    Note how it flips:

    >>> f(1)
    2
"""

GOOGLE = """Compute the loss.

    See the class for details.

    Args:
        input (Tensor): Logits. They are
            not normalised.

        target (Tensor): Labels.

    Returns:
        The loss.

    Note:
        This may select a slow algorithm.

    Example::

        >>> loss(x)
        tensor(1.)

    It ends here.
"""

SPHINX = """Opens it.

:param name: The name of the
    thing to open.
:returns: A thing. It is open.

Use it like this::

    with opened(name) as thing:
        thing.read()

.. warning:: Do not forget
   to close it.

.. code-block:: python

   close(thing)

That is all.
"""


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (
            NUMPYDOC,
            [
                "Returns the convolution of two sequences.",
                "It is often seen in signal processing.",
            ],
        ),
        (
            GOOGLE,
            [
                "Compute the loss.",
                "See the class for details.",
                "This may select a slow algorithm.",
                "It ends here.",
            ],
        ),
        (
            SPHINX,
            [
                "Opens it.",
                "Use it like this:",
                "Do not forget",
                "to close it.",
                "That is all.",
            ],
        ),
        (
            "There are two:\n\n- The first one\n  goes on.\n- The second.\n\n1. A numbered one.",
            ["There are two:", "The first one goes on.", "The second.", "A numbered one."],
        ),
        (
            "Here it is.\n\n+----+----+\n| a  | b  |\n+----+----+\n\nname     meaning\n\nThe end.",
            ["Here it is.", "The end."],
        ),
        ("One.\n>>> f(x)\n3\n\nTwo.", ["One.", "Two."]),
        ("", []),
    ],
    ids=["numpydoc", "google", "sphinx", "lists", "tables", "doctest", "empty"],
)
def test_only_prose_is_left(docstring: str, expected: list[str]) -> None:
    assert list(paragraphs(docstring)) == expected


@given(st.text(st.sampled_from("aA.: \n\t->=`*|_1[]()~"), max_size=300))
def test_any_text_gives_paragraphs(docstring: str) -> None:
    for paragraph in paragraphs(docstring):
        assert paragraph.strip()
        assert "\n" not in paragraph
