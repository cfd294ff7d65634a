"""Names in sentences, and how sure the model is

A CRF finds the names of people and places in generated sentences. It gives the probability of each name and the
best alternative labellings, and is checked for calibration: of the names with probability 0.8, are 80 % right?
"""

# %% Sentences from templates. *Paris*, *Jordan*, *Georgia*, *Hill* and *Lee* are people as well as places; some contexts leave it open which is meant.
import random

from mrflearn import CRF, Constraints, word_features
from mrflearn.evaluation import chunk_report, reliability
from mrflearn.io import tags_to_spans
from mrflearn.plots import draw_reliability

PEOPLE = ["Ann", "Jordan", "Paris", "Bob Hill", "Mary Jane Lee", "Tom", "Georgia", "Lee"]
PLACES = ["Paris", "Jordan", "New York", "Lyon", "Georgia", "Hill", "Bonn", "Lee"]
TEMPLATES = [
    "{p} went to {l} .",
    "we saw {p} in {l} today .",
    "{p} of {l} wrote to {p} .",
    "we like {p} .",
    "we like {l} .",
    "they talked about {p} .",
    "they talked about {l} .",
    "{p} surprised us .",
    "{l} surprised us .",
]


def sentence(rng):
    words, tags = [], []
    for slot in rng.choice(TEMPLATES).split():
        kind = {"{p}": "PER", "{l}": "LOC"}.get(slot)
        own = rng.choice(PEOPLE if kind == "PER" else PLACES).split() if kind else [slot]
        words += own
        tags += [f"{'I' if k else 'B'}-{kind}" if kind else "O" for k in range(len(own))]
    return words, tags


rng = random.Random(0)
sentences = [sentence(rng) for _ in range(700)]
train, test = sentences[:200], sentences[200:]

# %% Features of each word in its window, and a CRF with constraints that keep the tags well-formed.
crf = CRF(c2=0.5).fit([word_features(words) for words, _ in train], [tags for _, tags in train])
X, truth = [word_features(words) for words, _ in test], [tags for _, tags in test]
legal = Constraints(scheme="IOB2")
print(f"F1 of names: {chunk_report(truth, crf.predict(X, legal)).total.f1:.3f}")

# %% One sentence in detail: names with their exact probabilities, and the best labellings of the sentence.
words = "Paris of New York surprised us .".split()
for span in crf.predict_spans([word_features(words)], constraints=legal)[0]:
    print(" ".join(words[span.start : span.end]), span.label, f"{span.probability:.2f}")
for labelling in crf.n_best([word_features(words)], 3)[0]:
    print(labelling)

# %% Are the probabilities calibrated? A predicted name is correct if the true names include the same span with the same label.
# ![Accuracy of names by the probability they were given](../pictures/gallery/names.png)
found = crf.predict_spans(X, constraints=legal)
gold = [set(tags_to_spans(tags)) for tags in truth]
sure = [span.probability for spans in found for span in spans]
right = [
    (span.start, span.end, span.label) in own for spans, own in zip(found, gold) for span in spans
]
table = reliability(sure, right, bins=5)
print(f"expected calibration error: {table.expected_error:.3f}")
draw_reliability({"names": table}).savefig("names.png", dpi=120)
