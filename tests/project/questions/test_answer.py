"""Which runs an answer is from, and whether laws or the simulation give it."""

import json
from pathlib import Path
from typing import Any

import pytest
from complete import record_of
from explain.situations import USUAL, Situation, alone, write

from paceline.errors import SpecError
from paceline.project.curve import Point
from paceline.project.questions.answer import Runs
from paceline.project.questions.whatif import Question
from paceline.record import FILE_NAME, Record

GRADIENTS = [{"name": str(n), "bytes": 2_000_000, "ready_seconds": 0.02 * (3 - n)} for n in range(3)]


def made(folder: Path, situation: Situation) -> Record:
    run = write(folder, situation, series=False)
    return record_of({**json.loads((run / FILE_NAME).read_text()), "gradients": GRADIENTS})


def together(folder: Path, strategy: str, workers: int = 2, exchange: float = 0.02, **spec: Any) -> Record:
    phases = {**USUAL, "exchange": exchange}
    name = f"{strategy}-{workers}-{len(list(folder.iterdir()))}"
    return made(folder / name, Situation(workers=workers, phases=phases, spec={"strategy": strategy, **spec}))


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    one = made(tmp_path / "alone", alone())
    return [one, together(tmp_path, "allreduce"), together(tmp_path, "ps", exchange=0.04)]


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        (None, "allreduce"),
        ("ps", "ps"),
        ("bf16+allreduce", "allreduce"),
        ("ps:servers=2", "ps"),
        ("independent", "independent"),
    ],
)
def test_the_runs_most_like_the_strategy_asked_for_are_taken(
    records: list[Record], asked: str | None, measured: str
) -> None:
    runs = Runs.of(records, asked)
    assert runs.strategy == measured
    assert records[0] in runs.records
    found = runs.ask([Point(4)], Question(strategy=asked))
    assert found.subject == (asked or "allreduce")
    assert found.measured_as == measured


def test_laws_answer_where_three_counts_were_measured_and_a_simulation_where_more_is_asked(
    records: list[Record], tmp_path: Path
) -> None:
    runs = Runs.of([*records, together(tmp_path, "allreduce", 4, 0.03)])
    assert sorted(n for n, _ in runs.ask([Point(8)], Question()).measured) == [1, 2, 4]
    assert runs.ask([Point(8)], Question()).curve.law != "simulation"
    for point, question in ((Point(8), Question(device_speed=2)), (Point(8, batch=4), Question())):
        assert runs.ask([point], question).curve.law == "simulation"
    assert Runs.of(records).ask([Point(8)], Question()).curve.law == "simulation"


def test_runs_of_several_kinds_are_told_apart_by_their_series(records: list[Record], tmp_path: Path) -> None:
    both = [*records, together(tmp_path, "allreduce", precision="bf16")]
    with pytest.raises(SpecError, match="vae allreduce dataset, vae ps dataset, vae allreduce dataset bf16"):
        Runs.of(both)
    assert Runs.of(both, series="vae ps dataset").records == (records[0], records[2])
    assert Runs.of(both, series="vae allreduce dataset bf16").records == (both[-1],)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"accumulate": 2}, "accumulate 2"),
        ({"optimizer": "sgd"}, "optimizer sgd"),
        ({"clip_norm": 0.5}, "clip norm 0.5"),
        ({"cores_per_device": 2}, "2 cores per device"),
        ({"device": "emulated:2080ti", "accumulate": 2}, "accumulate 2 emulated:2080ti"),
    ],
)
def test_whatever_changes_a_step_makes_another_series_that_is_named_after_it(
    records: list[Record], tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    both = [*records, together(tmp_path, "allreduce", **other)]
    with pytest.raises(SpecError, match=f"vae ps dataset, vae allreduce dataset {words}\\."):
        Runs.of(both)
    assert Runs.of(both, series=f"vae allreduce dataset {words}").records == (both[-1],)


def test_runs_that_differ_in_their_length_or_seed_are_of_one_kind(records: list[Record], tmp_path: Path) -> None:
    both = [*records, together(tmp_path, "allreduce", seed=3, validate="off", optimizer="own")]
    assert both[-1] in Runs.of(both, "allreduce").records
