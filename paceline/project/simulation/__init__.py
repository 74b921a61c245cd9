"""One simulated step of many workers, made from the records of a few."""
