"""What starts workers."""
