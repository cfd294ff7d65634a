"""Records turned into counts, features and batches."""

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.features.moments import Moments as Moments
    from mrflearn.features.moments import lattice_moments as lattice_moments
    from mrflearn.features.moments_file import load_moments as load_moments
    from mrflearn.features.moments_file import save_moments as save_moments
    from mrflearn.features.observations import CliqueCounts as CliqueCounts
    from mrflearn.features.observations import Samples as Samples
    from mrflearn.features.observations import clique_counts as clique_counts

__getattr__, __dir__ = lazy(__name__)
