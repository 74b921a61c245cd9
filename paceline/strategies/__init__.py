"""Strategies: how replicas synchronise."""
