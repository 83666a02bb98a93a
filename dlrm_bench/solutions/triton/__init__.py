"""Triton solutions, one file a problem."""
