"""How replicas agree."""
