"""Turn measured times into figures with intervals."""
