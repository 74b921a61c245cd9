"""Readers of data files and generators of data."""
