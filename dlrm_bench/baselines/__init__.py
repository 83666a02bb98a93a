"""Library baselines: what a production engineer would call today, in submission form."""
