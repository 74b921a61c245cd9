"""Feeds: where a worker's batches come from."""
