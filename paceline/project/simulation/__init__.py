"""The simulation of one step of many workers, calibrated from the records of a few."""
