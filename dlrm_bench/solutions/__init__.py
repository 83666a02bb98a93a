"""Kernels that ship with dlrm-bench, in submission form."""
