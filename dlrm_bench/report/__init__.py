"""From results to what a person reads."""
