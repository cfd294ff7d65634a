"""What the paper reports, to stand beside ours.

Y. Jernite, A. Rush, D. Sontag: A fast variational approach for learning Markov random field
language models, ICML 2015.  Figures 5 and 6 have no numbers in the text; what it says of them does
stand here.
"""

FIGURE_5 = "the bound lies below; its model's exact likelihood comes close to exact training"
FIGURE_6 = "the low-rank bound is slightly below LBL's exact value; full rank over-fits"
TRAINING_MINUTES = 45.0  # to the best validation value, on a GPU of its day

TABLE_1 = {
    "company": {
        "MRF lifted": ["firm", "industry", "group"],
        "MRF SGD": ["he", "it", "corp."],
        "word2vec": ["holding", "anacomp", "uniroyal"],
    },
    "red": {
        "MRF lifted": ["conservative", "freedom", "black"],
        "MRF SGD": ["vietnamese", "delegation", "judge"],
        "word2vec": ["cross", "tape", "delicious"],
    },
    "has": {
        "MRF lifted": ["had", "is", "was"],
        "MRF SGD": ["have", "had", "n't"],
        "word2vec": ["had", "been", "have"],
    },
    "dollar": {
        "MRF lifted": ["currency", "economy", "government"],
        "MRF SGD": ["intergroup", "market", "uses"],
        "word2vec": ["currency", "pound", "stabilized"],
    },
    "jack": {
        "MRF lifted": ["richard", "david", "carl"],
        "MRF SGD": ["like", "needed", "first"],
        "word2vec": ["kemp", "porter", "timothy"],
    },
}
