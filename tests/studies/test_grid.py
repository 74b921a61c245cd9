"""Laws of grids: every combination once, the baseline beside it, keys that stay, and turns that are fair."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from studies.quick import study

from paceline.devices import cpu
from paceline.engines.plan import site_settings
from paceline.errors import SpecError
from paceline.migrations import migrated_strategy, strategy_of_schema_1
from paceline.network import Site
from paceline.settings import SettingValue
from paceline.spec import RunSpec
from paceline.studies.definition import make_study
from paceline.studies.grid import Grid, key_of, spread

TABLE = {"name": "tried", "workload": "vae", "steps": 4}


def settings(grid: Grid, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(cell.spec, name) for name in names) for cell in grid.cells]


def test_every_combination_is_there_exactly_once_and_baselines_beside_them() -> None:
    axes: dict[str, list[Any]] = {
        "strategy": ["allreduce", "ps"],
        "feed": ["dataset", "dataset:shard=off"],
        "batch": [8, 16],
        "workers": [1, 2, 4],
    }
    grid = spread(study(**axes))
    asked = [cell for cell in grid.cells if not cell.added]
    found = [tuple(getattr(cell.spec, name) for name in axes) for cell in asked]
    assert sorted(found) == sorted(itertools.product(*axes.values()))
    baselines = [cell.spec for cell in grid.cells if cell.added and cell.spec]
    assert sorted((b.feed, b.batch) for b in baselines) == sorted(itertools.product(axes["feed"], axes["batch"]))
    assert {(b.workers, b.workers_per_device, b.strategy) for b in baselines} == {(1, 1, "independent")}


def test_a_baseline_that_is_asked_for_is_not_added() -> None:
    grid = spread(study(strategy=["independent", "allreduce"], workers=[1, 2]))
    assert not any(cell.added for cell in grid.cells)
    assert len(grid.cells) == 4


def test_two_spellings_of_the_same_run_are_one() -> None:
    grid = spread(study(strategy=["ps", "ps:mode=sync", "ps:servers=1"], workers=[2, 2]))
    assert settings(grid, "strategy", "workers") == [("independent", 1), ("ps", 2)]


def test_keys_are_unique_and_depend_on_a_runs_own_settings_only() -> None:
    small = spread(study(workers=[1, 2], repeats=2))
    large = spread(study(workers=[1, 2, 4], lr=[None, 0.1], strategy=["allreduce", "ps"], repeats=3))
    keys = {run.key for run in large.in_turns()}
    assert len(keys) == len(large.in_turns()) == 3 * len(large.cells)
    assert {run.key for run in small.in_turns()} < keys
    assert "vae-allreduce-2w-" in " ".join(keys)


def test_keys_stay_the_same_from_version_to_version() -> None:
    # Folders of earlier studies are found by these; a change here makes every study run anew.
    (baseline, cell) = spread(study(workers=2, batch=8, device="cpu", validate="off")).cells
    assert (baseline.key, cell.key) == ("vae-independent-1w-57dc9ec6d22e", "vae-allreduce-2w-4c7626ca515a")


def test_every_turn_holds_every_cell_once_in_an_order_of_its_own() -> None:
    grid = spread(study(workers=[1, 2, 4], repeats=6))
    turns = [[run.cell.key for run in grid.in_turns() if run.spec.turn == turn] for turn in range(6)]
    assert turns[0] == [cell.key for cell in grid.cells]
    assert {tuple(sorted(turn)) for turn in turns} == {tuple(sorted(turns[0]))}
    assert len({tuple(turn) for turn in turns}) > 3
    assert grid.in_turns() == spread(study(workers=[1, 2, 4], repeats=6)).in_turns(), "the same study, the same order"
    assert [run.spec.turn for run in grid.in_turns()] == sorted(run.spec.turn for run in grid.in_turns())


def test_weak_scaling_keeps_the_batch_of_a_worker_and_strong_scaling_that_of_all() -> None:
    weak = spread(study(workers=[1, 2, 4], batch=64))
    strong = spread(study(workers=[1, 2, 4], batch=64, scaling="strong"))
    assert settings(weak, "workers", "batch") == [(1, 64), (1, 64), (2, 64), (4, 64)]
    assert settings(strong, "workers", "batch") == [(1, 64), (1, 64), (2, 32), (4, 16)]


def test_a_global_batch_that_does_not_divide_is_refused_with_the_numbers() -> None:
    (cell,) = spread(study(workers=[1, 3], batch=64, scaling="strong")).impossible
    assert cell.problem == "batch = 64 in total cannot be divided among 3 workers: use a multiple of 3."


def test_equal_samples_are_equal() -> None:
    table = {"name": "tried", "workload": "vae", "workers": [1, 2, 4], "batch": 8, "equal": "samples", "samples": 640}
    grid = spread(make_study(table))
    assert settings(grid, "workers", "steps") == [(1, 80), (1, 80), (2, 40), (4, 20)]
    (cell,) = spread(make_study({**table, "workers": [2, 3]})).impossible
    assert cell.problem == "samples = 640 cannot be divided by 24 samples per update: use a multiple of 24."


def test_equal_updates_count_those_of_every_worker_where_each_updates_alone() -> None:
    grid = spread(study(strategy=["allreduce", "ps:mode=async"], workers=[1, 2], steps=40, equal="updates"))
    assert settings(grid, "strategy", "workers", "steps")[1:] == [
        ("allreduce", 1, 40),
        ("allreduce", 2, 40),
        ("ps:mode=async", 1, 40),
        ("ps:mode=async", 2, 20),
    ]


@pytest.mark.parametrize(
    ("cores", "workers", "placed"),
    [
        (2, [1, 2, 4, 8], {1: 1, 2: 1, 4: 2, 8: 4}),
        (8, [1, 2, 3, 8], {1: 1, 2: 1, 3: 1, 8: 1}),
        (1, [1, 2, 3], {1: 1, 2: 2, 3: 3}),
        (6, [1, 2, 4, 8], {1: 1, 2: 1, 4: 1, 8: 2}),  # four devices, of which eight workers fill each with two
    ],
)
def test_fit_gives_every_worker_a_device_and_beyond_that_fills_all_of_them_evenly(
    cores: int, workers: list[int], placed: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: tuple(range(cores)))
    grid = spread(study(workers=workers, workers_per_device="fit"))
    assert dict(settings(grid, "workers", "workers_per_device")[1:]) == placed


def test_a_curve_never_mixes_counts_of_devices_uneven_workers_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: (0, 1))
    grid = spread(study(workers=list(range(1, 9)), workers_per_device="fit", batch=840, scaling="strong"))
    assert {cell.spec.workers // cell.spec.workers_per_device for cell in grid.cells if cell.spec} == {1, 2}
    refused = {cell.settings["workers"]: cell.problem for cell in grid.impossible}
    assert list(refused) == [3, 5, 7]
    assert "--workers 3 cannot be divided evenly among the 2 devices" in str(refused[3])
    assert "use 2 or 4 workers" in str(refused[3])


def test_servers_with_devices_of_their_own_leave_fewer_to_fit_workers_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: (0, 1, 2))
    grid = spread(study(workers=[2, 4], workers_per_device="fit", strategy="ps:place=own"))
    assert settings(grid, "workers", "workers_per_device")[1:] == [(2, 1), (4, 2)]


def test_variants_have_settings_of_their_own() -> None:
    variants = [
        {"label": "all-reduce", "strategy": "allreduce", "workers": [2, 4]},
        {"label": "servers", "strategy": "ps", "batch": 16},
    ]
    grid = spread(study(batch=8, workers=[1, 2], variant=variants))
    assert [(c.label, c.spec.workers, c.spec.batch) for c in grid.cells if c.spec] == [
        ("baseline of all-reduce", 1, 8),
        ("baseline of servers", 1, 16),
        ("all-reduce", 2, 8),
        ("all-reduce", 4, 8),
        ("servers", 1, 16),
        ("servers", 2, 16),
    ]


def test_runs_validate_only_on_request_baselines_too() -> None:
    assert {spec.validate for spec in specs(spread(study(workers=[1, 2])))} == {"off"}
    assert {spec.validate for spec in specs(spread(study(workers=[1, 2], validate="end")))} == {"end"}


def specs(grid: Grid) -> list[RunSpec]:
    return [cell.spec for cell in grid.cells if cell.spec is not None]


def test_cells_whose_data_cannot_be_used_are_refused_unless_they_are_finished() -> None:
    grid = spread(study(workers=[1, 2], repeats=2))
    finished = {run.key for run in grid.runs_of(grid.cells[-1])}
    refused = grid.refusing(lambda spec: "too few samples", finished)
    assert [cell.problem for cell in refused.cells] == ["too few samples", "too few samples", None]
    assert [cell.key for cell in refused.cells] == [cell.key for cell in grid.cells]
    assert len(refused.in_turns()) == 2


def test_what_cannot_run_is_found_beforehand_with_its_reason() -> None:
    grid = spread(study(workers=[2, 16], workers_per_device=[1, 4]))
    reasons = {(c.settings["workers"], c.settings["workers_per_device"]): c.problem for c in grid.impossible}
    assert reasons.keys() == {(16, 1), (2, 4)}
    assert "add --workers-per-device 2" in str(reasons[16, 1])
    assert "use a multiple of 4" in str(reasons[2, 4])
    assert not {run.cell.key for run in grid.in_turns()} & {cell.key for cell in grid.impossible}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"equal": "samples", "samples": 640, "steps": None, "batch": [0]}, "--batch 0 is not valid"),
        ({"equal": "samples", "samples": 640, "steps": None, "batch": "x"}, "--batch 'x' is not valid"),
        ({"equal": "samples", "samples": 640, "steps": None, "batch": 2.5}, "--batch 2.5 is not valid"),
        ({"scaling": "strong", "batch": "x"}, "--batch 'x' is not valid: it must be a whole number"),
        ({"scaling": "strong", "batch": True}, "--batch True is not valid"),
        ({"equal": "updates", "steps": "x", "strategy": "ps:mode=async"}, "--steps 'x' is not valid"),
        ({"equal": "updates", "steps": 0, "strategy": "ps:mode=async"}, "--steps 0 is not valid"),
        ({"workers": "x", "workers_per_device": "fit"}, "--workers 'x' is not valid: it must be a whole number"),
        ({"workers": 0, "workers_per_device": "fit"}, "--workers 0 is not valid: it must be at least 1"),
        ({"workers": True, "workers_per_device": "fit"}, "--workers True is not valid"),
    ],
)
def test_a_number_that_is_none_is_refused_before_anything_is_divided(wrong: dict[str, Any], said: str) -> None:
    (cell,) = spread(make_study({k: v for k, v in {**TABLE, **wrong}.items() if v is not None})).cells
    assert said in str(cell.problem)


@pytest.mark.parametrize("wrong", [{"strategy": ["allreduce", "sp"]}, {"workload": "vea"}, {"feed": 3}])
def test_a_name_that_nobody_knows_is_no_combination_that_cannot_run(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        spread(study(**wrong))


def test_in_a_testbed_networks_multiply_what_has_several_nodes_and_nothing_else() -> None:
    site = Site(2, "1Gbps")
    grid = spread(study(**site_settings(site) | {"network": ["100Mbps", "1Gbps"]}, workers=[1, 2]), site)
    assert settings(grid, "strategy", "workers", "nodes", "network") == [
        ("independent", 1, 1, None),
        ("allreduce", 1, 1, None),
        ("allreduce", 2, 2, "100Mbps"),
        ("allreduce", 2, 2, "1Gbps"),
    ]


def test_a_run_has_the_same_key_in_a_testbed_as_outside_where_it_has_one_node() -> None:
    inside, outside = spread(study(nodes=2, workers=1), Site(2, "1Gbps")), spread(study(workers=1))
    assert [cell.key for cell in inside.cells] == [cell.key for cell in outside.cells]


@pytest.mark.parametrize("workers", [1, 2])
def test_finished_runs_of_an_earlier_version_are_found_by_their_keys(workers: int) -> None:
    """Schema 1 wrote `allreduce:wire=bf16`: the folders that version 0.1.0 left have keys of that spelling."""
    workload = "vae:data=generated,samples=640,channels=2,hidden=8"
    settings: dict[str, SettingValue] = {
        "workload": workload,
        "batch": 16,
        "steps": 30,
        "device": "cpu",
        "validate": "off",
    }
    runs = Path(__file__).parents[1] / "kept" / "folders" / "weak" / "runs"
    key = key_of({**settings, "strategy": "bf16+allreduce", "workers": workers})
    assert (runs / f"{key}-turn0").is_dir()


@pytest.mark.parametrize(
    ("now", "schema_1"),
    [
        ("bf16+allreduce", "allreduce:wire=bf16"),
        ("fp16+allreduce:bucket=1MB", "allreduce:bucket=1MB,wire=fp16"),
        ("bf16+allreduce:packs=2,reduce=sum", "allreduce:packs=2,wire=bf16,reduce=sum"),
        ("bf16+allreduce:small=1KB,overlap=off", "allreduce:small=1KB,overlap=off,wire=bf16"),
    ],
)
def test_a_cast_is_spelled_as_in_schema_1_and_back(now: str, schema_1: str) -> None:
    assert strategy_of_schema_1(now) == schema_1
    assert migrated_strategy(schema_1) == now


@pytest.mark.parametrize("text", ["allreduce", "allreduce:packs=2", "ps:servers=2", "bf16+ps", "topk+bf16+allreduce"])
def test_what_schema_1_could_not_write_keeps_its_spelling(text: str) -> None:
    assert strategy_of_schema_1(text) == text


@pytest.mark.parametrize(("name", "values"), [("optimizer", ["own", "sgd"]), ("clip_norm", [0.5, 1.0])])
def test_what_changes_a_workers_step_has_a_baseline_for_each_of_its_values(name: str, values: list[Any]) -> None:
    grid = spread(study(workers=[2, 4], **{name: values}))
    assert settings(grid, "workers", name)[:2] == [(1, value) for value in values]
    assert [cell.added for cell in grid.cells] == [True, True, False, False, False, False]


def test_variants_with_equal_settings_keep_their_identity_by_name() -> None:
    one, other = ({"label": label, "strategy": "allreduce"} for label in ("A", "B"))
    grid = spread(study(workers=2, variant=[one, other]))
    baseline, a, b = grid.cells
    assert (a.label, b.label, baseline.added) == ("A", "B", True)
    assert a.key != b.key
    assert a.key == spread(study(workers=2, strategy="allreduce")).cells[1].key, "runs of the first one are found again"
    assert (a.setting("variant"), b.setting("variant")) == (None, "B")
    unnamed = [{"strategy": "allreduce"}, {"strategy": "allreduce"}]
    assert [cell.setting("variant") for cell in spread(study(workers=2, variant=unnamed)).cells] == [
        None,
        None,
        "variant 2",
    ]
    with pytest.raises(SpecError, match="Two variants are called 'A' and have equal settings"):
        spread(study(workers=2, variant=[one, one]))
