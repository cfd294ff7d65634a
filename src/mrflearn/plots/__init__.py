"""Rows turned into pictures; the only user of matplotlib."""
