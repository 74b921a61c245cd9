"""Errors in one line: the cause, and where the whole text is."""

import pytest

from paceline.errors import cause_line, in_one_line

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in forward\nValueError: too small\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Worker 1 failed: too small\nLast lines of worker 1:\n  a\n  b", "Worker 1 failed: too small"),
        (TRACEBACK, "ValueError: too small"),
        (f"Worker 1 failed: {TRACEBACK}", "Worker 1 failed: ValueError: too small"),
        ("\n  one line \n", "one line"),
        ("", ""),
    ],
)
def test_the_line_that_names_the_cause(text: str, line: str) -> None:
    assert cause_line(text) == line


def test_the_file_is_named_only_where_it_holds_more() -> None:
    assert in_one_line("It stopped.", "run/record.json") == "It stopped."
    assert in_one_line(TRACEBACK, "run/record.json") == ("ValueError: too small (the whole text is in run/record.json)")
