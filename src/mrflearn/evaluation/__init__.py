"""Predictions and truth turned into figures and tables."""
