"""Records turned into counts, features and batches."""
