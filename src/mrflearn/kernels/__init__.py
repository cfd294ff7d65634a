"""Arithmetic on plain tensors; functions that know nothing of models, graphs or data."""
