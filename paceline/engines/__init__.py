"""Engines: they start the workers of a run, supervise them and collect the record."""
