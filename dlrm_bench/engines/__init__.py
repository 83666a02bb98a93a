"""Many evaluations: one machine's devices, one after another or side by side."""
