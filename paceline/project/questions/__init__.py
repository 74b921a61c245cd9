"""Questions to the laws and to the simulation, and the wording of the answers."""
