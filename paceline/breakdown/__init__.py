"""Break a step down: group repeats into settings, compare each with its baseline, and look at workers and steps."""
