"""The best linear interpolation of three models, token by token."""

from __future__ import annotations

import numpy as np
import torch

from mrflearn import CompositeLanguageModel
from mrflearn.inference.charts import Prefix
from mrflearn.models.composite_lm import explain

Documents = list[list[list[str]]]


def token_probabilities(model: CompositeLanguageModel, documents: Documents) -> np.ndarray:
    """p of every token, ends too, after the words before it in its sentence and document."""
    found = model.fit_.model
    text, ready, folded = model._folded(documents)
    shares = torch.from_numpy(folded.before).to(found.weights)
    wiring = found.shape.grammar
    result = np.zeros(len(text.stream) - 1)
    prefix = None
    if wiring is not None:
        logs = (found.rules.double().cpu(), found.start.double().cpu())
        prefix = Prefix.of(*logs, wiring.to(torch.device("cpu")))
    for batch in ready:
        sentences, tokens = batch.sentences, batch.to(found)
        scores = explain(found, tokens, shares[tokens.document]).scores.double().cpu()
        if prefix is None:
            result[text.places(sentences, ends=True)] = scores[:, 0].numpy()
            continue
        pieces = torch.split(scores, tokens.lengths.tolist())
        for sentence, own in zip(sentences, pieces, strict=True):
            beliefs = prefix(own.log())
            words = (beliefs.follows[:-1].exp() * own).sum(dim=1)
            every = torch.cat([words, beliefs.ends[-1:].exp()])
            result[text.places(np.array([sentence]), ends=True)] = every.numpy()
    return result


def best_weights(columns: list[np.ndarray], steps: int = 300) -> np.ndarray:
    """The weights of a mixture under which these tokens are most probable, by EM."""
    values = np.stack(columns, axis=1)
    weights = np.full(len(columns), 1 / len(columns))
    for _ in range(steps):
        share = weights * values
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights
