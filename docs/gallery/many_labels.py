"""A thousand labels: exact loss and piecewise pseudolikelihood

The exact loss of a chain costs the square of the number of labels at every position. Piecewise pseudolikelihood (PWPL)
predicts each label of a pair given the other, and costs no more than the labels. Both train the same layer.
"""

# %% Sequences of 1,000 labels in which each label has a likely successor, and noisy observations of them.
import time

import torch

from mrflearn.nn import ChainCRF
from mrflearn.plots import draw_curves

LABELS, SENTENCES, LENGTH = 1000, 24, 16
generator = torch.Generator().manual_seed(0)
successors = torch.randperm(LABELS, generator=generator)


def sequences(count):
    """Labels, and what is seen of them: the right number, or with probability 0.3 any."""
    labels = torch.randint(LABELS, (count, 1), generator=generator)
    for _ in range(LENGTH - 1):
        other = torch.randint(LABELS, (count, 1), generator=generator)
        usual = torch.rand(count, 1, generator=generator) < 0.9
        labels = torch.cat([labels, torch.where(usual, successors[labels[:, -1:]], other)], dim=1)
    noise = torch.rand(labels.shape, generator=generator) < 0.3
    return labels, torch.where(
        noise, torch.randint(LABELS, labels.shape, generator=generator), labels
    )


def emissions(seen):
    """The encoder, as simple as can be: what is seen is probably right."""
    return 6.0 * torch.nn.functional.one_hot(seen, LABELS).float()


# %% The same layer from the same start, trained by either loss for a few epochs.
train, test = sequences(10 * SENTENCES), sequences(6)
curves, seconds = {}, {}
for estimator in ("ml", "pwpl"):
    torch.manual_seed(0)
    crf = ChainCRF(LABELS, batch_first=True)
    optimiser = torch.optim.Adam(crf.parameters(), lr=0.3)
    spent, times, accuracy = 0.0, [], []
    for step in range(10):
        part = slice(SENTENCES * step, SENTENCES * (step + 1))
        began = time.perf_counter()
        loss = crf.loss(
            emissions(train[1][part]), train[0][part], reduction="token_mean", estimator=estimator
        )
        optimiser.zero_grad()
        loss.backward()
        spent += time.perf_counter() - began
        optimiser.step()
        if step in (0, 4, 9):
            found = torch.tensor(crf.decode(emissions(test[1])))
            times.append(spent)
            accuracy.append((found == test[0]).float().mean().item())
    curves[estimator], seconds[estimator] = (times, accuracy), spent / 10
    print(
        f"{estimator}: {accuracy[-1]:.3f} of labels right, {1e3 * seconds[estimator]:.0f} ms a step"
    )
print(f"what is seen: {(test[1] == test[0]).float().mean():.3f} right")

# %% Accuracy on new sequences against the time spent on losses and gradients.
# ![Accuracy against seconds, by estimator](../pictures/gallery/many-labels.png)
draw_curves(
    curves, across="seconds of losses and gradients", upward="labels right", marker="o"
).savefig("many-labels.png", dpi=120)
