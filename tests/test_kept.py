"""Folders that version 0.1.0 wrote are read by every later version, and the same figures are derived from them.

How they were made: `tests/kept/make.py`; what is derived: `tests/kept/figures.py`. Figures are compared, not wording:
texts of several words by the numbers in them, names and data exactly, numbers within 1e-9. A change of wording that
touches numbers, and a name that changes, is written into `RENAMED_KEYS`, `ADDED_KEYS` or `figures.RENAMED_TEXTS`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kept import figures

RENAMED_KEYS: dict[str, str] = {}
"""Keys of JSON objects and columns: as version 0.1.0 wrote them, and as they are written now."""

ADDED_KEYS: frozenset[str] = frozenset({"shape"})
"""Keys that version 0.1.0 did not write."""

TOLERANCE = 1e-9
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_SHOWN = 10

CASES = [(name, verb) for name in figures.names() for verb in figures.verbs_of(name)]


@pytest.mark.parametrize(("name", "verb"), CASES)
def test_a_kept_folder_gives_the_same_figures_as_when_it_was_written(
    name: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures.copied(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    derived = json.loads(json.dumps(figures.verbs_of(name)[verb](name)))
    different = list(differences(expected(name, verb), derived))
    assert not different, "\n".join([f"{len(different)} figures differ:", *different[:_SHOWN]])


@pytest.mark.parametrize(("verb", "name"), [("explain", "epochs"), ("project", "fixed"), ("study", "epochs")])
def test_a_record_with_another_rate_gives_other_figures(
    verb: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures.copied(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    for file in Path(name).rglob("record.json"):
        record = json.loads(file.read_text())
        if record["spec"]["workers"] == 2:
            record["throughput"]["value"] *= 1.000_001
            file.write_text(json.dumps(record))
    derived = json.loads(json.dumps(figures.verbs_of(name)[verb](name)))
    assert list(differences(expected(name, verb), derived))


def expected(name: str, verb: str) -> Any:
    return json.loads((figures.EXPECTED / name.removesuffix(".json") / f"{verb}.json").read_text())


def test_figures_are_expected_of_every_kept_folder_and_of_no_other() -> None:
    there = {(file.parent.name, file.stem) for file in figures.EXPECTED.glob("*/*.json")}
    assert there == {(name.removesuffix(".json"), verb) for name, verb in CASES}
    assert {"weak", "strong", "variants", "settings", "emulated", "network", "fixed"} <= {n for n, _ in CASES}


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Where two answers differ, as `place: before, now`."""
    if isinstance(before, dict) and isinstance(now, dict):
        yield from _between_objects(before, now, place)
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{place}: {len(before)} items before, {len(now)} now"
        for number, (first, second) in enumerate(zip(before, now, strict=False)):
            yield from differences(first, second, f"{place}[{number}]")
    elif isinstance(before, str) and isinstance(now, str):
        yield from _between_texts(figures.renamed(before), now, place)
    elif not same(before, now):
        yield f"{place}: {before!r} before, {now!r} now"


def _between_objects(before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> Iterator[str]:
    called = {key: figures.renamed(RENAMED_KEYS.get(key, key)) for key in before}
    for key, name in called.items():
        if name in now:
            yield from differences(before[key], now[name], f"{place}/{name}")
        else:
            yield f"{place}/{name}: is gone"
    for name in now.keys() - set(called.values()) - ADDED_KEYS:
        yield f"{place}/{name}: was not there before"


def _between_texts(before: str, now: str, place: str) -> Iterator[str]:
    """Of one word: equal, or the same number. Of several lines: line by line where both have as many."""
    if not re.search(r"\s", before):
        if before != now and not (is_number(before) and is_number(now) and same(numbers(before)[0], numbers(now)[0])):
            yield f"{place}: {before!r} before, {now!r} now"
        return
    first, second = numbers(before), numbers(now)
    if len(first) == len(second) and all(map(same, first, second)):
        return
    lines = before.splitlines(), now.splitlines()
    if len(lines[0]) == len(lines[1]) > 1:
        for number, (line, other) in enumerate(zip(*lines, strict=True), 1):
            if numbers(line) != numbers(other):
                yield f"{place}, line {number}: {line!r} before, {other!r} now"
    else:
        yield f"{place}: {before!r} before, {now!r} now"


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "").replace("−", "-")) for found in _NUMBER.findall(text)]


def same(before: Any, now: Any) -> bool:
    """Whether two plain values are equal; numbers may differ in their last digits."""
    if isinstance(before, bool | None) or isinstance(now, bool | None):
        return before is now
    if isinstance(before, int | float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=1e-15)
    return bool(before == now)


def test_a_changed_number_is_a_difference_wherever_it_stands() -> None:
    before = {"rate": 10.0, "rows": [{"workers": 2, "note": None}], "words": "about 1,234 images/s (±3 %)"}
    assert list(differences(before, {**before, "rate": 10.0 * (1 + 1e-12)})) == []
    assert list(differences(before, {**before, "words": "1234 images a second, within 3 %"})) == []
    changes: tuple[dict[str, Any], ...] = (
        {"rate": 10.00001},
        {"rate": None},
        {"rows": [{"workers": 2, "note": 0}]},
        {"rows": []},
        {"words": "about 1,235 images/s (±3 %)"},
        {"words": "about 1,234 images/s"},
        {"more": 1},
    )
    for changed in changes:
        assert len(list(differences(before, {**before, **changed}))) == 1
    assert list(differences(before, {key: before[key] for key in ("rows", "words")})) == ["/rate: is gone"]


def test_names_are_compared_exactly_and_sentences_by_their_numbers() -> None:
    assert list(differences("allreduce", "ps"))
    assert list(differences("ps:mode=async", "ps:mode=stale"))
    assert not list(differences("the network is the limit", "limited by the network"))
    assert not list(differences("19,520", "1.952e+04"))
    assert numbers("bf16 in 2 packs, -3.5e-2 s, n1=100Mbps, 20–34 %, seed-004") == [2, -0.035, 100, 20, 34, 4]


def test_what_is_renamed_in_the_tables_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {"rate": 1, "line": "allreduce:wire=bf16", "curves": {"allreduce:wire=bf16 · 2 workers": 3.5}}
    now = {"throughput": 1, "line": "bf16+allreduce", "curves": {"bf16+allreduce · 2 workers": 3.5}, "unit": "images/s"}
    monkeypatch.setattr(figures, "RENAMED_TEXTS", {})
    assert len(list(differences(before, now))) == 6
    monkeypatch.setitem(RENAMED_KEYS, "rate", "throughput")
    monkeypatch.setitem(figures.RENAMED_TEXTS, "allreduce:wire=bf16", "bf16+allreduce")
    assert list(differences(before, now)) == ["/unit: was not there before"]
    monkeypatch.setattr(f"{__name__}.ADDED_KEYS", frozenset({"unit"}))
    assert list(differences(before, now)) == []
