"""Traces: read, link kernels to operators, classify, reduce, store."""
