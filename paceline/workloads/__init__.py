"""What is learned: models, losses and data."""
