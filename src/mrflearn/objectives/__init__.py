"""A model, a batch and (if needed) an inference put together into one number."""
