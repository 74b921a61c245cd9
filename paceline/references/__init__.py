"""Published tables to compare with, as data with their source, and the audit of any table."""

from paceline.references.catalogue import load, names

__all__ = ["load", "names"]
