"""A neural PCFG

A grammar whose rule probabilities are computed by a network from vectors of its symbols, as of Kim, Dyer and Rush (2019),
learned from sentences without any tree. The sum over all trees is `TreeCRF.log_partition`, exact and differentiable.
"""

# %% Sentences of a small language: a noun phrase, a verb, and a noun phrase, with optional adjectives.
import random

import torch
from torch import nn

from mrflearn.nn import TreeCRF
from mrflearn.plots import draw_curves

WORDS = ["the", "a", "old", "small", "dog", "cat", "bird", "sees", "likes"]
rng = random.Random(0)


def phrase():
    return [
        rng.choice(["the", "a"]),
        *([rng.choice(["old", "small"])] * (rng.random() < 0.3)),
        rng.choice(["dog", "cat", "bird"]),
    ]


sentences = [[*phrase(), rng.choice(["sees", "likes"]), *phrase()] for _ in range(120)]
lengths = torch.tensor([len(own) for own in sentences])
numbers = torch.zeros(len(sentences), int(lengths.max()), dtype=torch.int64)
for row, own in enumerate(sentences):
    numbers[row, : len(own)] = torch.tensor([WORDS.index(word) for word in own])
mask = torch.arange(numbers.shape[1]) < lengths[:, None]


# %% Rules, roots and words, each a softmax of products of vectors.
class Grammar(nn.Module):
    def __init__(self, phrases=4, preterminals=6, width=16):
        super().__init__()
        symbols = phrases + preterminals
        self.charts = TreeCRF(phrases, preterminals).requires_grad_(False)
        self.symbols = nn.Parameter(torch.randn(symbols, width))
        self.root = nn.Linear(width, 1)
        self.rules = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, symbols**2))
        self.words = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, len(WORDS)))

    def scores(self, numbers):
        phrases, (count, _) = self.charts.phrases, self.symbols.shape
        rules = self.rules(self.symbols[:phrases]).log_softmax(1).view(phrases, count, count)
        start = torch.full((count,), -torch.inf)
        start[:phrases] = self.root(self.symbols[:phrases])[:, 0].log_softmax(0)
        words = self.words(self.symbols[phrases:]).log_softmax(1).t()[numbers]
        return words, rules, start

    def log_likelihood(self, numbers, mask):
        words, rules, start = self.scores(numbers)
        return self.charts.log_partition(words, mask, rules, start)


# %% Maximum likelihood, all sentences at a time.
torch.manual_seed(0)
grammar = Grammar()
optimiser = torch.optim.Adam(grammar.parameters(), lr=0.02)
perplexity = []
for _ in range(60):
    loss = -grammar.log_likelihood(numbers, mask).sum() / lengths.sum()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    perplexity.append(loss.exp().item())
print(f"perplexity per word: {perplexity[0]:.2f} at first, {perplexity[-1]:.2f} learned")

# %% The best tree of a sentence, as brackets.
with torch.no_grad():
    words, rules, start = grammar.scores(numbers[:1])
    (tree,) = grammar.charts.decode(words, mask[:1], rules, start)
for begin, end, symbol in tree:
    if end - begin > 1:
        print(f"{symbol}:", *sentences[0][begin:end])

# %% How training went.
# ![Perplexity by step](../pictures/gallery/neural-pcfg.png)
curve = {"neural PCFG": (range(len(perplexity)), perplexity)}
draw_curves(curve, across="step", upward="perplexity per word").savefig("neural-pcfg.png", dpi=120)
