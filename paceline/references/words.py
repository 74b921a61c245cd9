"""What was read of a user's table, in words."""

from collections.abc import Mapping, Sequence


def about_columns(used: Mapping[str, str], unused: Sequence[str]) -> str:
    """`Columns used: np (workers), images/s (throughput). Not used: mood.`"""
    read = ", ".join(text if text == field else f"{text} ({field})" for text, field in used.items())
    return f"Columns used: {read}. Not used: {', '.join(unused) or 'none'}."
