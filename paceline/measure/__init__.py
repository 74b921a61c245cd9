"""From times to figures with intervals."""
