"""Worker processes, which train the model."""
