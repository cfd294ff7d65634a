"""One number made small: optimisers, progress, checkpoints."""
