"""Baselines on fbgemm-gpu and torchrec, one file a problem."""
