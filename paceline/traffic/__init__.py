"""The traffic that each strategy declares, in plain Python without torch."""
