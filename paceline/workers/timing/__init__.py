"""Measure where the time of a step goes: a clock with its marks, buckets, gradients, and how busy the cores are."""
