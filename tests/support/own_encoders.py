"""Encoders as a user's own module has them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bag(nn.Module):
    """Scores of a word from its own embedding and the mean of its characters'."""

    def __init__(self, words: int, characters: int, labels: int) -> None:
        super().__init__()
        self.word, self.letter = nn.Embedding(words, labels), nn.Embedding(characters, labels)

    def forward(self, words: Tensor, characters: Tensor, lengths: Tensor) -> Tensor:
        del lengths
        inside = (characters > 0).unsqueeze(-1)
        letters = (self.letter(characters) * inside).sum(-2) / inside.sum(-2).clamp(min=1)
        return torch.as_tensor(self.word(words) + letters)


def bag(words: int, characters: int, labels: int) -> nn.Module:
    """The encoder above."""
    return Bag(words, characters, labels)


def wrong(words: int, characters: int, labels: int) -> nn.Module:
    """An encoder with one label too many."""
    return Bag(words, characters, labels + 1)
