"""Contacts of a protein family

Columns of an alignment that are in contact in the folded protein change together. A Potts model separates direct couplings from
correlations that are mediated by other columns.
"""

# %% An alignment with six planted contacts: pairs of columns that prefer certain pairs of letters. It is written to a file, as your own would be.
import numpy as np

from mrflearn import PottsField
from mrflearn.graph import strongest_pairs
from mrflearn.io import read_alignment
from mrflearn.plots import draw_heat_map

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
PLANTED = [(0, 16), (1, 15), (2, 14), (4, 11), (5, 10), (7, 17)]
rng = np.random.default_rng(0)
rows = rng.choice(20, size=(300, 18), p=rng.dirichlet(np.ones(20) * 5))
for i, j in PLANTED:
    partner = rng.permutation(20)  # each letter at i has a partner at j, in four of five rows
    rows[:, j] = np.where(rng.random(300) < 0.8, partner[rows[:, i]], rows[:, j])
with open("family.fasta", "w", encoding="utf-8") as stream:
    stream.writelines(
        f">seq{n}\n{''.join(LETTERS[letter] for letter in row)}\n" for n, row in enumerate(rows)
    )

# %% The model, by pseudolikelihood with the penalties of CCMpred.
alignment = read_alignment("family.fasta")
field = PottsField(states=21).fit(alignment.values)
print(f"{len(alignment.values)} sequences, effectively {field.n_effective_:.0f}")
for i, j in strongest_pairs(field.contacts_, 8, apart=4).tolist():
    print(
        f"{i + 1:>3} - {j + 1:<3} {field.contacts_[i, j]:.3f}  {'planted' if (i, j) in PLANTED else ''}"
    )

# %% The contact map: dark squares are high scores.
# ![Strengths of all pairs of columns](../pictures/gallery/protein.png)
draw_heat_map(field.contacts_, label="contact score", first=1, axes=("column", "column")).savefig(
    "protein.png", dpi=120
)
