"""Twelve recommender kernel problems, a judge that is hard to fool, and a clock with intervals."""

__version__ = "0.1.0"
