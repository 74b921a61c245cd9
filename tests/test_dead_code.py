"""What nothing uses is removed: every function, class, method, variable and import of the package has a use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from vulture import Vulture
from vulture.core import Item

import paceline

PACKAGE = Path(paceline.__file__).parent
HERE = Path(__file__).parent
CALLED_BY_LIBRARIES = {"format_commands"}
"""Overridden methods. Special names and attributes that a library reads need no entry."""


def named_in_texts(folder: Path) -> Iterator[str]:
    """Names that code reaches by a text: an address such as `module:function`, a key, a quoted annotation."""
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.search(r"\s", node.value):
                yield from re.findall(r"\w+", node.value)


def is_field(item: Item) -> bool:
    """Whether it is a field of a class: data for whoever reads the file that it is written to."""
    line = item.filename.read_text().splitlines()[item.first_lineno - 1]
    return item.typ == "variable" and re.match(r"\s+\w+: ", line) is not None


def unused(package: Path, *users: Path) -> list[str]:
    """Names defined in a package that neither the package nor its users use."""
    finder = Vulture(ignore_decorators=["@app.*"])
    finder.scavenge([str(package), *map(str, users)])
    used = {*named_in_texts(package), *CALLED_BY_LIBRARIES}
    return [
        f"{item.filename.relative_to(package)}:{item.first_lineno} {item.typ} {item.name}"
        for item in finder.get_unused_code(min_confidence=60)
        if item.filename.is_relative_to(package)
        and item.typ != "attribute"
        and not is_field(item)
        and not item.name.startswith("__")
        and item.name not in used
    ]


def test_the_package_holds_nothing_that_is_not_used() -> None:
    assert unused(PACKAGE, HERE) == []


def test_what_is_not_used_is_noticed(tmp_path: Path) -> None:
    names = ("called", "addressed", "mentioned")
    functions = "".join(f"def {name}():\n    return 1\n\n" for name in names)
    (tmp_path / "m.py").write_text(f"{functions}called()\nADDRESS = 'm:addressed'\nprint(ADDRESS, 'only mentioned')\n")
    assert unused(tmp_path) == ["m.py:7 function mentioned"]
