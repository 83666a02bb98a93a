"""The clock: paired blocks, intervals, and the floor that the hardware sets."""
