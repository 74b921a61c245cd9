"""Workloads: models, losses and data."""
