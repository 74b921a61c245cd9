"""Grids of runs: what is in them, where they are kept, in which order they are made, and what they show."""
