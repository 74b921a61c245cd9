"""Our results in the layouts of published tables, and compared with them."""
