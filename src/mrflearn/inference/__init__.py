"""Potentials turned into log Z, marginals, best states and samples."""
