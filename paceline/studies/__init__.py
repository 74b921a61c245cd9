"""Studies: grids of runs, their folders, the order of the runs, and the tables of results."""
