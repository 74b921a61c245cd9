"""Scaling laws, one file each, and how they are fitted to tables, evaluated and checked."""
