"""What a worker computes on."""
