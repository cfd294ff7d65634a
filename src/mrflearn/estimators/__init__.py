"""The front doors: fit, predict, score, save."""
