"""A BiLSTM-CRF

A bidirectional LSTM scores the tags of every word of a sentence, and a CRF on top makes them one answer: names in
generated sentences, trained by the exact log-likelihood, with constraints that keep the tags well-formed.
"""

# %% Sentences from templates. The words around a name say whether it is a person or a place; the same words can be either.
import random

import torch
from torch import nn

from mrflearn.evaluation import chunk_report
from mrflearn.nn import ChainCRF, legal_chunks
from mrflearn.plots import draw_curves

NAMES = ["paris", "jordan", "georgia", "lee", "hill lee", "new york", "jordan hill"]
TEMPLATES = [
    "{p} went to {l} .",
    "we saw {p} in {l} today .",
    "{p} of {l} wrote to {p} .",
    "they flew from {l} to {l} .",
]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def sentence(rng):
    words, tags = [], []
    for slot in rng.choice(TEMPLATES).split():
        kind = {"{p}": "PER", "{l}": "LOC"}.get(slot)
        own = rng.choice(NAMES).split() if kind else [slot]
        words += own
        tags += [f"{'I' if k else 'B'}-{kind}" if kind else "O" for k in range(len(own))]
    return words, tags


rng = random.Random(0)
train, test = ([sentence(rng) for _ in range(n)] for n in (200, 100))
number = {word: k for k, word in enumerate(sorted({w for words, _ in train for w in words}))}


def batch(sentences):
    """Numbers of words and of tags, and a mask: shorter sentences are padded."""
    n = max(len(words) for words, _ in sentences)
    words, tags = torch.zeros(2, len(sentences), n, dtype=torch.int64)
    mask = torch.zeros(len(sentences), n, dtype=torch.bool)
    for row, (own, labels) in enumerate(sentences):
        words[row, : len(own)] = torch.tensor([number[w] for w in own])
        tags[row, : len(own)] = torch.tensor([TAGS.index(t) for t in labels])
        mask[row, : len(own)] = True
    return words, tags, mask


# %% The encoder gives emissions, scores of every tag at every word; `ChainCRF` is the rest.
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(number), 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.score = nn.Linear(32, len(TAGS))
        self.crf = ChainCRF(len(TAGS), batch_first=True, constraints=legal_chunks(TAGS, "IOB2"))

    def emissions(self, words):
        return self.score(self.lstm(self.embed(words))[0])


torch.manual_seed(0)
tagger = Tagger()
optimiser = torch.optim.Adam(tagger.parameters(), lr=0.03)
losses = []
for _ in range(6):
    rng.shuffle(train)
    for first in range(0, len(train), 20):
        words, tags, mask = batch(train[first : first + 20])
        loss = tagger.crf.loss(tagger.emissions(words), tags, mask, reduction="mean")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())

# %% Decoding, and how sure the model is of one sentence.
words, tags, mask = batch(test)
with torch.no_grad():
    emissions = tagger.emissions(words)
predicted = [[TAGS[k] for k in row] for row in tagger.crf.decode(emissions, mask)]
print(f"F1 of names: {chunk_report([tags for _, tags in test], predicted).total.f1:.3f}")
print(*test[0][0])
print("entropy:", round(tagger.crf.entropy(emissions[:1], mask[:1]).item(), 3), "nats")
for path, score in zip(*(own[:, 0] for own in tagger.crf.n_best(emissions[:1], 2, mask[:1]))):
    print(f"{score.exp():.3f}", *(TAGS[k] for k in path[mask[0]]))

# %% How training went.
# ![The loss of every minibatch](../pictures/gallery/bilstm-crf.png)
curve = {"minibatches": (range(len(losses)), losses)}
draw_curves(curve, across="step", upward="nats per sentence").savefig("bilstm-crf.png", dpi=120)
