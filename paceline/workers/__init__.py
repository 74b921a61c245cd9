"""The processes that train."""
