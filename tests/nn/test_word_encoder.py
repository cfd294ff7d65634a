"""`WordEncoder`: padding has no influence, letters and neighbours have."""

from __future__ import annotations

import pytest
import torch

from mrflearn.nn import WordEncoder

SIZES = {"dims": 6, "char_dims": 4, "char_filters": 5, "hidden": 7}


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three sentences, padded; the words have up to four letters."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([2, 5, 3])
    words = torch.randint(1, 20, (3, 5), generator=draw)
    letters = torch.randint(1, 9, (3, 5, 4), generator=draw)
    letters[:, ::2, 3] = 0
    outside = torch.arange(5) >= lengths[:, None]
    return words.masked_fill(outside, 0), letters.masked_fill(outside[..., None], 0), lengths


@pytest.mark.parametrize("further", [{}, {"char_dims": 0}, {"layers": 2}], ids=str)
def test_sentences_are_scored_as_if_alone(further: dict[str, int]) -> None:
    torch.manual_seed(1)
    encoder = WordEncoder(20, 9, 3, **SIZES | further).double().eval()
    words, letters, lengths = inputs()
    together = encoder(words, letters, lengths)
    assert together.shape == (3, 5, 3)
    for row, length in enumerate(lengths.tolist()):
        longest = int((letters[row, :length] > 0).sum(dim=1).max())
        alone = encoder(
            words[row : row + 1, :length],
            letters[row : row + 1, :length, :longest],
            lengths[row : row + 1],
        )
        torch.testing.assert_close(together[row, :length], alone[0])


def test_letters_count_where_they_are_looked_at() -> None:
    torch.manual_seed(1)
    words, letters, lengths = inputs()
    other = letters.clone()
    other[1, 2, 0] = 1 + other[1, 2, 0] % 8
    for dims, same in ((4, False), (0, True)):
        encoder = WordEncoder(20, 9, 3, **SIZES | {"char_dims": dims}).eval()
        found = [encoder(words, own, lengths)[1] for own in (letters, other)]
        assert torch.equal(*found) is same


def test_both_neighbours_count() -> None:
    torch.manual_seed(1)
    encoder = WordEncoder(20, 9, 3, **SIZES).eval()
    words, letters, lengths = inputs()
    before = encoder(words, letters, lengths)[1]
    for place in (0, 4):
        other = words.clone()
        other[1, place] = 1 + other[1, place] % 19
        assert not torch.equal(encoder(other, letters, lengths)[1, 2], before[2])


def test_the_filters_are_those_of_a_loop_over_letters() -> None:
    torch.manual_seed(1)
    encoder = WordEncoder(20, 9, 3, **SIZES).double().eval()
    assert encoder.character is not None
    word = torch.tensor([3, 5, 7])
    found = encoder.spelled(torch.cat([word, word.new_zeros(2)]).view(1, 1, 5))[0, 0]
    rows = torch.nn.functional.pad(encoder.character(word), (0, 0, 1, 1))
    answers = [
        torch.einsum("fdw,wd->f", encoder.filters.weight, rows[t : t + 3]) + encoder.filters.bias
        for t in range(3)
    ]
    torch.testing.assert_close(found, torch.stack(answers).amax(dim=0))


def test_padding_is_no_parameter() -> None:
    encoder = WordEncoder(20, 9, 3, **SIZES)
    encoder(*inputs()).sum().backward()
    assert encoder.character is not None
    for table in (encoder.word, encoder.character):
        assert table.weight.grad is not None
        assert not table.weight.grad[0].any()
        assert not table.weight[0].any()
