"""Couplings of a spin glass from its configurations

The inverse Ising problem: estimate couplings and fields from observed spins on a lattice. Three estimators on the same
samples, compared with the truth.
"""

# %% A 6 x 6 lattice with random couplings, and 5,000 configurations drawn exactly.
import numpy as np

from mrflearn import MarkovField
from mrflearn.graph import grid, ising_parameters, random_ising
from mrflearn.inference import Drawing, JunctionTree
from mrflearn.plots import draw_lattices, draw_recovery

truth = random_ising(grid(6, 6), scale=0.8, seed=3)
draw = Drawing()(truth, 5000, seed=0)
spins = 2 * draw.samples.numpy() - 1
print(draw.method, "mean magnetisation", spins.mean().round(3))

# %% Exact maximum likelihood, pseudolikelihood, and LAP, whose cost is linear in the number of edges.
true = ising_parameters(truth)
fields = {name: MarkovField("grid:6x6", estimator=name).fit(spins) for name in ("ml", "pl", "lap")}
for name, field in fields.items():
    error = np.sqrt(np.mean((field.couplings_ - true.couplings.numpy()) ** 2))
    print(
        f"{name:>4}: root mean square error of a coupling {error:.4f}, {field.score(spins):.4f} nats per configuration"
    )

# %% All couplings against the truth: a perfect estimator is on the diagonal.
# ![Estimated couplings against true ones](../pictures/gallery/spins-recovery.png)
estimates = {name: field.couplings_ for name, field in fields.items()}
draw_recovery(true.couplings.numpy(), estimates).savefig("spins-recovery.png", dpi=120)

# %% The lattice itself: fields as nodes, couplings as edges.
# ![True and learned fields and couplings on the lattice](../pictures/gallery/spins.png)
shown = {
    "true": (true.fields.numpy(), true.couplings.numpy()),
    "learned (ml)": (fields["ml"].fields_, fields["ml"].couplings_),
}
draw_lattices(shown, fields["ml"].edges_, columns=6).savefig("spins.png", dpi=120)

# %% log Z in the gauge of the couplings shown, exact for a lattice of this width.
print(
    "log Z of the truth",
    float(JunctionTree()(truth).log_partition),
    "of the learned field",
    fields["ml"].log_partition(),
)
