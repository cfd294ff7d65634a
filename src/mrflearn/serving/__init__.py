"""Models behind a small local web page."""
