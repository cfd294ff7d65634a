"""What a fitted language model is, and the way there and back to what storage keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.inference.lifted import Ceiling
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.neighbour_lm import BilinearPairs, ExplicitPairs, LowRankPairs, NeighbourModel
from mrflearn.models.storage import record, texts

FORMS: dict[str, Any] = {
    "low-rank": LowRankPairs,
    "bilinear": BilinearPairs,
    "explicit": ExplicitPairs,
}


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """A model, the duals and normaliser of its bound, words, and sentence lengths with counts."""

    model: NeighbourModel
    duals: Float[Tensor, "k c"]
    ceiling: Ceiling
    vocabulary: Vocabulary
    lengths: NDArray[np.int64]


def store(learned: Learned) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors to keep."""
    values = {"ceiling": asdict(learned.ceiling), "words": list(learned.vocabulary.words)}
    own = {"duals": learned.duals, "lengths": torch.from_numpy(learned.lengths)}
    return values, {**learned.model.parameters(), **own}


def restore(form: str, kept: dict[str, Any], tensors: dict[str, Tensor]) -> Learned:
    """A model of this form, as `store` was given it."""
    scores = dict(tensors)
    ceiling = record(Ceiling, kept["ceiling"])
    vocabulary = Vocabulary(texts(kept, "words"))
    duals, lengths = scores.pop("duals"), scores.pop("lengths")
    unary, triples = scores.pop("unary"), scores.pop("triples", None)
    model = NeighbourModel(unary, FORMS[form](**scores), triples)
    if len(vocabulary) != model.states or duals.shape != (model.offsets, model.states):
        raise DataError("words, duals and scores differ in number")
    return Learned(model, duals, ceiling, vocabulary, lengths.cpu().numpy())
