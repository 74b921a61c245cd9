"""What is asked of laws and of the simulation, and how the answers read."""
