"""Parameters turned into potentials, and how models are stored."""
