"""A transformer with a CRF, on word pieces

Encoders such as BERT cut words into pieces, and only the first piece of a word has a tag. The mask of `ChainCRF` leaves the
others out, wherever they stand: neighbours in the chain are neighbouring *words*. Some of the labels are missing, too.
"""

# %% Words of one to three pieces, and tags that depend on the word and on the tag before it.
import torch
from torch import nn

from mrflearn.nn import ChainCRF
from mrflearn.plots import draw_curves

PIECES, TAGS, LENGTH = 30, 4, 16
generator = torch.Generator().manual_seed(0)
after = torch.tensor([1, 2, 3, 0])  # the tag that follows each tag, unless the word says otherwise


def batch(sentences):
    """Pieces, tags (-1: unknown), the mask of first pieces, and the tags in truth."""
    pieces = torch.randint(TAGS, PIECES, (sentences, LENGTH), generator=generator)
    first = torch.rand(sentences, LENGTH, generator=generator) < 0.6
    first[:, 0] = True
    truth = torch.full((sentences, LENGTH), -1)
    for row in range(sentences):
        tag = 0
        for place in first[row].nonzero()[:, 0].tolist():
            plain = torch.rand((), generator=generator) < 0.5
            if plain:  # a word that says its tag
                tag = int(torch.randint(TAGS, (), generator=generator))
                pieces[row, place] = tag
            else:  # a word that says nothing: the tag follows from the one before
                tag = int(after[tag])
            truth[row, place] = tag
    hidden = torch.rand(sentences, LENGTH, generator=generator) < 0.3
    return pieces, truth.masked_fill(hidden, -1), first, truth


# %% A small transformer encoder; in earnest this is a pretrained one.
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(PIECES, 32), nn.Embedding(LENGTH, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1)
        self.score = nn.Linear(32, TAGS)

    def forward(self, pieces):
        return self.score(self.layers(self.embed(pieces) + self.place.weight))


torch.manual_seed(0)
encoder, crf = Encoder(), ChainCRF(TAGS, batch_first=True)
pieces, tags, first, _ = batch(400)
test_pieces, _, test_first, truth = batch(100)
groups = {"params": encoder.parameters()}, {"params": crf.parameters(), "lr": 0.05}
optimiser = torch.optim.Adam(groups, lr=0.003)
accuracy = []
for step in range(100):
    part = slice(50 * (step % 8), 50 * (step % 8) + 50)
    with torch.autocast("cpu", torch.bfloat16):  # the CRF computes in float32 all the same
        loss = crf.loss(encoder(pieces[part]), tags[part], first[part], reduction="token_mean")
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 5 == 4:
        with torch.no_grad():
            found = crf.decode(encoder(test_pieces), test_first)
        pairs = [
            pair
            for own, row, kept in zip(found, truth, test_first)
            for pair in zip(own, row[kept].tolist())
        ]
        accuracy.append(sum(a == b for a, b in pairs) / len(pairs))
print(f"accuracy on words: {accuracy[-1]:.3f}")

# %% What each tag is followed by, as the layer learned it: 0, 1, 2, 3, and 0 again.
print(crf.transitions.detach().softmax(1))

# %% Accuracy on sentences that were not seen.
# ![Accuracy by step](../pictures/gallery/transformer-crf.png)
curve = {"words": (range(5, 101, 5), accuracy)}
draw_curves(curve, across="step", upward="accuracy").savefig("transformer-crf.png", dpi=120)
