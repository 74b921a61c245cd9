"""Predicts throughput with more workers or another network: curves with bands, from a table or from records."""
