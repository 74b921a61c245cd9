"""Our results in the layouts of published tables, and beside them."""
