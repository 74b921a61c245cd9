"""The table of what combines with what, in the documentation and in the code."""

from pathlib import Path

import paceline
from paceline.traffic.catalogue import MEMBERS
from paceline.traffic.combinations import as_markdown, combinations

CHOOSE = Path(paceline.__file__).parent.parent / "docs" / "choose-a-strategy.md"


def test_the_documentation_holds_the_table_as_it_is() -> None:
    assert as_markdown(combinations()) in CHOOSE.read_text(), as_markdown(combinations())


def test_every_member_has_its_row_or_column() -> None:
    heading, *rows = combinations()
    assert {name.removeprefix("+") for name in heading[2:]} | {row[0] for row in rows[1:]} == set(MEMBERS)


def test_the_documentation_describes_every_member() -> None:
    text = CHOOSE.read_text()
    assert [name for name in MEMBERS if f"| `{name}" not in text] == []


def test_codecs_code_all_of_an_all_reduce_and_the_push_to_servers() -> None:
    heading, *rows = combinations()
    cells = {(row[0], how): cell for row in rows for how, cell in zip(heading[1:], row[1:], strict=True)}
    assert cells["bf16", "+allreduce"] == "yes"
    assert cells["bf16", "+ps"] == "the push"
    assert cells["bf16", "alone"] == cells["independent", "+ps"] == "no"
    assert cells["independent", "alone"] == "yes"
