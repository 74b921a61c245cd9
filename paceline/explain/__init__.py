"""Explain why a run takes the time it takes: phases, the gap to ideal, causes, and what to try next."""
