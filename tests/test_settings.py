"""Settings are declared once: every one with its roles, and nowhere else a list of their names."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.errors import SpecError
from paceline.settings import Baseline, Role, Seconds, setting, settings_of
from paceline.spec import SETTINGS, RunSpec, with_baseline, with_role

ROOT = Path(paceline.__file__).parent
# Names of settings that are also words of something else: columns of tables that others published.
OTHER_WORDS: dict[str, str] = {
    "references/headings.py": "the columns of published tables",
    "references/spreadsheet.py": "the columns of published tables",
    "references/catalogue.py": "the keys of a published table's file",
}


def declared(**details: Any) -> Any:
    return setting(1, **{"help": "h", "group": "g", "roles": (Role.IDENTITY,), "baseline": Baseline.ANY, **details})


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_a_role_a_help_text_and_a_place_in_the_help(name: str) -> None:
    one = SETTINGS[name]
    assert one.roles
    assert one.help.endswith(".")
    assert one.group
    assert one.has(Role.IDENTITY) or one.has(Role.OPERATION), "a run is identified by it, or does not depend on it"


def test_a_field_that_declares_no_roles_is_refused() -> None:
    @dataclasses.dataclass
    class Wanting:
        declared: int = declared()
        bare: int = 2

    with pytest.raises(TypeError, match=r"Wanting\.bare is not declared with setting\(\): give it roles"):
        settings_of(Wanting)
    with pytest.raises(TypeError, match="roles"):
        setting(1, help="h", group="g", baseline=Baseline.ANY)  # type: ignore[call-arg]


def test_the_baseline_of_every_setting_that_it_replaces_is_a_value_that_a_run_can_have() -> None:
    alone = {name: SETTINGS[name].alone for name in with_baseline(Baseline.ALONE, Baseline.UNUSED)}
    spec = RunSpec(workload="vae", steps=1, **alone)
    assert (spec.workers, spec.strategy) == (1, "independent")


def test_what_changes_a_workers_step_is_shared_with_its_baseline_or_replaced_by_it() -> None:
    for name in with_role(Role.STEP):
        assert SETTINGS[name].baseline in (Baseline.SAME, Baseline.ALONE), name


def test_the_documentation_names_every_setting_that_a_baseline_shares() -> None:
    text = (ROOT.parent / "docs" / "studies.md").read_text().partition("## The baseline")[2].partition("\n## ")[0]
    listed = " ".join(text.split()).partition("with the same ")[2].partition(".")[0]
    named = set(listed.replace(" and ", ", ").split(", "))
    assert named == {SETTINGS[name].label for name in with_baseline(Baseline.SAME)}


def test_what_changes_the_mathematics_of_a_run_must_match_its_checkpoint() -> None:
    free = {name for name in with_role(Role.STEP) if not SETTINGS[name].has(Role.CHECKPOINT)}
    assert free == {"device", "workers_per_device", "cores_per_device"}, "where it runs, not what it computes"


@pytest.mark.parametrize(
    ("details", "kind", "value", "message"),
    [
        ({"least": 1}, int, 0, "--it 0 is not valid: it must be at least 1."),
        ({"above": 0}, float, 0.0, "--it 0.0 is not valid: it must be above 0 and finite."),
        ({"most": 3}, int, 4, "--it 4 is not valid: it must be at most 3."),
        ({"least": 1, "most": 3}, int, 4, "--it 4 is not valid: it must be from 1 to 3."),
        ({}, int, "2", "--it '2' is not valid: it must be a whole number."),
        ({}, int, True, "--it True is not valid: it must be a whole number."),
        ({}, bool, 1, "--it 1 is not valid: it must be true or false."),
    ],
)
def test_a_value_out_of_its_bounds_is_refused_with_the_rule(
    details: dict[str, Any], kind: type, value: Any, message: str
) -> None:
    one = dataclasses.make_dataclass("One", [("it", kind, declared(**details))])
    with pytest.raises(SpecError) as refused:
        settings_of(one)["it"].check(value)
    assert str(refused.value) == message


def test_a_value_is_parsed_as_its_type_says() -> None:
    assert SETTINGS["workers"].parse("3") == 3
    assert SETTINGS["mps"].parse("on") is True
    assert SETTINGS["seconds"].type == Seconds
    assert (SETTINGS["seconds"].parse("1.5m"), SETTINGS["timeout"].read("250ms")) == (90.0, 0.25)
    with pytest.raises(SpecError, match="--workers two is not valid: it must be a whole number"):
        SETTINGS["workers"].parse("two")


def enumerations(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Tuples, lists and sets of string constants, and the constant keys of dicts."""
    for node in ast.walk(tree):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
        if items:
            words = [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]
            if len(words) == len(items):
                yield node.lineno, words  # type: ignore[attr-defined]


def lists_of_settings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [
        f"{path.name}:{line} {words}"
        for line, words in enumerations(tree)
        if len(words) > 1 and {*words} <= {*SETTINGS}
    ]


def test_no_other_place_enumerates_settings() -> None:
    lists = {p.relative_to(ROOT).as_posix(): lists_of_settings(p) for p in sorted(ROOT.rglob("*.py"))}
    assert {file: listed for file, listed in lists.items() if listed and file not in OTHER_WORDS} == {}


def test_a_list_of_settings_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text('SAME = {"workload": 1, "feed": 2}\nPHASES = ("input", "feed")\nONE = ["lr"]\n')
    assert lists_of_settings(tmp_path / "m.py") == ["m.py:1 ['workload', 'feed']"]
