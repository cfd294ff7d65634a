"""`WordEncoder`: words and their characters to scores of labels, by a convolution and LSTMs.

X. Ma and E. Hovy, End-to-end sequence labeling via bi-directional LSTM-CNNs-CRF, ACL 2016.

Letters in shapes: b: sentences; n: positions of the longest; c: characters of the longest word; d:
dimensions; s: labels.
"""

from __future__ import annotations

import math
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

PADDING = 0
WIDTH = 3  # characters that a filter sees


@final
class WordEncoder(nn.Module):
    """Scores of labels from words and characters: a convolution over letters, then LSTMs.

    A word is its embedding beside the largest answers of filters to its letters; LSTMs read the
    sentence both ways, and a linear map of their states gives the scores.

    Parameters
    ----------
    words, characters
        How many numbers words have, and characters; 0 is padding.
    labels
        How many scores a word gets.
    dims
        Dimensions of a word's embedding.
    char_dims
        Dimensions of a character's embedding; 0: characters are not looked at.
    char_filters
        Filters over three characters each.
    hidden
        States of the LSTM in each direction.
    layers
        LSTMs on top of each other.
    dropout
        The share of numbers dropped in training before and after each part.

    Examples
    --------
    >>> import torch
    >>> from mrflearn.nn import WordEncoder
    >>> encoder = WordEncoder(words=100, characters=30, labels=5)
    >>> words, characters = torch.randint(1, 100, (2, 7)), torch.randint(1, 30, (2, 7, 12))
    >>> encoder(words, characters, torch.tensor([7, 4])).shape
    torch.Size([2, 7, 5])

    """

    def __init__(
        self,
        words: int,
        characters: int,
        labels: int,
        *,
        dims: int = 100,
        char_dims: int = 30,
        char_filters: int = 50,
        hidden: int = 200,
        layers: int = 1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.word = _embedding(words, dims)
        self.character = _embedding(characters, char_dims) if char_dims else None
        width = dims
        if char_dims:
            self.filters = nn.Conv1d(char_dims, char_filters, WIDTH, padding=WIDTH // 2)
            width += char_filters
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(
            width, hidden, layers, batch_first=True, bidirectional=True, dropout=between
        )
        self.drop = nn.Dropout(dropout)
        self.scores = nn.Linear(2 * hidden, labels)

    def forward(
        self,
        words: Int64[Tensor, "b n"],
        characters: Int64[Tensor, "b n c"],
        lengths: Int64[Tensor, " b"],
    ) -> Float[Tensor, "b n s"]:
        """The scores of every word's labels; `lengths`, all at least 1, may stay on the host."""
        read = self.word(words)
        if self.character is not None:
            read = torch.cat([read, self.spelled(characters)], dim=-1)
        inputs = nn.utils.rnn.pack_padded_sequence(
            self.drop(read), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(inputs)[0], batch_first=True, total_length=words.shape[1]
        )
        found: Tensor = self.scores(self.drop(states))
        return found

    def spelled(self, characters: Int64[Tensor, "b n c"]) -> Float[Tensor, "b n d"]:
        """The largest answer of each filter to each word, wherever in the word it is."""
        assert self.character is not None  # noqa: S101 - `forward` asked
        letters = characters.flatten(0, 1)
        inside = letters != PADDING
        inside[:, 0] = True  # of padding, so that the largest is a number
        answers = self.filters(self.drop(self.character(letters)).transpose(1, 2))
        largest: Tensor = answers.masked_fill(~inside[:, None], -torch.inf).amax(dim=2)
        return largest.view(*characters.shape[:2], -1)


def _embedding(count: int, dims: int) -> nn.Embedding:
    """Numbers of variance 1 / dims, zero for padding."""
    table = nn.Embedding(count, dims, padding_idx=PADDING)
    with torch.no_grad():
        table.weight.uniform_(-math.sqrt(3 / dims), math.sqrt(3 / dims))
        table.weight[PADDING] = 0.0
    return table
