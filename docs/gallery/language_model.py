"""A language model that sees both sides of a word

Learned from the docstrings of Python's standard library: words to fill a gap, similar words, a proven bound on the
likelihood of new text, and an n-gram model for comparison.
"""

# %% Sentences from the docstrings of the installed standard library; every tenth is held out.
from itertools import islice

from mrflearn import LanguageModel, NgramLanguageModel
from mrflearn.datasets import docstring_sentences
from mrflearn.plots import vector_map

sentences = [list(words) for words in islice(docstring_sentences(["stdlib"]), 3000)]
train = [words for number, words in enumerate(sentences) if number % 10]
held_out = sentences[::10]

# %% The Markov random field is learned from the counts of word pairs at distances one and two alone.
model = LanguageModel(dims=12, vocabulary_size=300, max_iterations=50).fit(train)
print(model.text_score(held_out))

# %% Gaps are filled from both sides, with exact conditional probabilities.
for gap in ("return the _ of the file", "if the _ is not found", "a list of _ objects"):
    print(
        gap,
        "->",
        [
            (word, round(probability, 2))
            for word, probability in model.fill(gap.split(), n=4)
            if word != "<unk>"
        ],
    )

# %% Words that can replace each other have similar vectors.
# ![Words at the two leading components of their vectors](../pictures/gallery/language-model.png)
print([word for word, _ in model.neighbors("string", n=5)])
vector_map(model.vocabulary_.words[:120], model.vectors_[:120]).savefig(
    "language-model.png", dpi=120
)

# %% For predicting text from left to right, modified Kneser-Ney trigrams are better on this little text. The field is for filling gaps.
trigrams = NgramLanguageModel(3, vocabulary_size=300).fit(train)
print(
    "perplexity: field (upper bound)",
    round(model.perplexity(held_out), 1),
    "trigrams",
    round(trigrams.perplexity(held_out), 1),
)
