"""What a fitted language model is, and the way there and back to what storage keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.data.vocabulary import Vocabulary
from mrflearn.errors import DataError, StorageError
from mrflearn.inference.lifted import Ceiling
from mrflearn.models.neighbour_lm import BilinearPairs, ExplicitPairs, LowRankPairs, NeighbourModel
from mrflearn.models.storage import StoredModel

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


def store(learned: Learned, form: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors to keep."""
    values = {
        "form": form,
        "ceiling": asdict(learned.ceiling),
        "words": list(learned.vocabulary.words),
    }
    own = {"duals": learned.duals, "lengths": torch.from_numpy(learned.lengths)}
    return values, {**learned.model.parameters(), **own}


def restore(stored: StoredModel) -> tuple[dict[str, Any], dict[str, Any], Learned]:
    """Settings, fitted values and model as `store` was given them."""
    kept, tensors = stored.settings, dict(stored.tensors)
    try:
        ceiling = Ceiling(**{**kept["ceiling"], "weights": tuple(kept["ceiling"]["weights"])})
        vocabulary = Vocabulary(tuple(kept["words"]))
        duals, lengths = tensors.pop("duals"), tensors.pop("lengths")
        unary, triples = tensors.pop("unary"), tensors.pop("triples", None)
        model = NeighbourModel(unary, FORMS[kept["form"]](**tensors), triples)
        if len(vocabulary) != model.states or duals.shape != (model.offsets, model.states):
            raise StorageError("words, duals and scores differ in number.")
        learned = Learned(model, duals, ceiling, vocabulary, lengths.cpu().numpy())
        return dict(kept["settings"]), dict(kept["fitted"]), learned
    except (KeyError, TypeError, DataError, StorageError) as error:
        raise StorageError(f"the stored model contradicts itself ({error}).") from error
