"""Emulate several hosts on one machine, with real links of a chosen rate between them."""
