"""What a study asks for: keys, lists, variants and sizes, and refusals that say the remedy."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from paceline.devices import cpu
from paceline.errors import SpecError
from paceline.network import Site
from paceline.studies import catalogue
from paceline.studies.definition import make_study, parse_values, read_study, slug
from paceline.studies.grid import spread


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"worker": [1, 2]}, "'worker' is not a known setting of a study. Did you mean 'workers'?"),
        ({"turn": 1}, "'turn' is not a known setting of a study"),
        ({"resume": "runs/x"}, "'resume' is not a known setting of a study"),
        ({"workers": []}, "workers = [] leaves the study without runs"),
        ({"workers": [[1, 2]]}, "workers = [1, 2] is not valid: write a number, a word, true or false, or a list"),
        ({"batch": datetime.date(1979, 5, 27)}, "batch = 1979-05-27 is not valid: write a number, a word"),
        ({"variant": [{"lr": [0.1, datetime.time(7, 32)]}]}, "lr = 07:32:00 is not valid"),
        ({"name": ""}, "--name '' is not valid: it names the study's folder"),
        ({"name": ".."}, "--name '..' is not valid: it names the study's folder and must contain a letter or a digit"),
        ({"name": "/:x"}, "--name '/:x' is not valid"),
        ({"repeats": 0}, "--repeats 0 is not valid: it must be at least 1"),
        ({"repeats": "two"}, "--repeats 'two' is not valid: it must be a whole number"),
        ({"name": 3}, "--name 3 is not valid: it must be a string"),
        ({"columns": "val_loss"}, "--columns 'val_loss' is not valid: it must be a list of names"),
        ({"columns": ["loss", 3]}, "it must be a list of names"),
        ({"per_epoch": 1}, "--per-epoch 1 is not valid: it must be true or false"),
        ({"per_epoch": True}, 'per_epoch = true needs a validation after every epoch: write validate = "epoch"'),
        ({"columns": ["val_loss"]}, 'columns = ["val_loss"] needs a validation: write validate = "end"'),
        ({"scaling": "week"}, "Did you mean 'weak'?"),
        ({"scaling": "strong"}, "give the global batch, batch = …"),
        ({"equal": "samples"}, 'equal = "samples" needs samples = …'),
        ({"equal": "updates", "epochs": 1}, "without epochs or seconds"),
        ({"samples": 64}, 'samples = 64 needs equal = "samples"'),
        ({"variant": {"workers": 1}}, "it must be [[variant]] tables"),
        ({"variant": [{"strategi": "ps"}]}, "Did you mean 'strategy'?"),
        ({"full": 3}, "full = 3 is not valid: it must be a table"),
        ({"full": {"wrkers": 3}}, "Did you mean 'workers'?"),
        ({"seconds": "soon"}, "--seconds 'soon' is not a time: write it like 90s, 5m, 250ms"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(table: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        make_study({"name": "tried", "workload": "vae", "steps": 4, **table})
    assert said in str(refused.value)


def test_a_study_without_a_workload_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(SpecError, match="A study needs a workload"):
        read_study(tmp_path / "empty.toml", full=False, flags={})


def test_malformed_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("workers = = 3")
    with pytest.raises(SpecError, match=r"bad.toml is not TOML: .*line 1"):
        read_study(tmp_path / "bad.toml", full=False, flags={})


def test_full_sizes_win_over_the_file_and_flags_over_both() -> None:
    table = {
        "name": "tried",
        "workload": "vae",
        "seconds": "5s",
        "batch": 8,
        "workers": [1, 2],
        "full": {"epochs": 4, "batch": 128},
    }
    small, full = make_study(table), make_study(table, full=True)
    typed = make_study(table, full=True, flags={"batch": [64], "steps": [9]})
    assert (small.axes["seconds"], small.axes["batch"], "epochs" in small.axes) == ((5.0,), (8,), False)
    assert (full.axes["epochs"], full.axes["batch"], "seconds" in full.axes) == ((4,), (128,), False)
    assert (typed.axes["steps"], typed.axes["batch"], typed.axes.keys() & {"epochs", "seconds"}) == ((9,), (64,), set())
    assert small.axes["workers"] == full.axes["workers"] == typed.axes["workers"] == (1, 2)


def test_full_without_full_sizes_is_refused() -> None:
    with pytest.raises(SpecError, match="no \\[full\\] settings"):
        make_study({"name": "tried", "workload": "vae", "steps": 4}, full=True)


def test_one_variant_can_be_chosen_by_its_label() -> None:
    table = {
        "name": "tried",
        "workload": "vae",
        "steps": 4,
        "variant": [{"label": "a", "workers": 1}, {"label": "b", "workers": 2}, {"workers": 4}],
    }
    assert [v.axes["workers"] for v in make_study(table, only=["b"]).variants] == [(2,)]
    assert len(make_study(table, only=["a", "b"]).variants) == 2
    with pytest.raises(SpecError, match="'c' is not a known variant of this study"):
        make_study(table, only=["c"])


def test_a_flag_that_the_variants_set_themselves_is_refused() -> None:
    table = {"name": "tried", "workload": "vae", "steps": 4, "variant": [{"strategy": "ps"}]}
    with pytest.raises(SpecError, match="--strategy cannot be given: every variant of this study sets strategy"):
        make_study(table, flags={"strategy": ["allreduce"]})


def test_values_are_read_from_the_command_line_by_the_type_of_the_setting() -> None:
    assert parse_values("workers", ["1,2", "4"]) == [1, 2, 4]
    assert parse_values("workers_per_device", ["fit"]) == ["fit"]
    assert parse_values("strategy", ["ps:servers=2,mode=async", "allreduce"]) == [
        "ps:servers=2,mode=async",
        "allreduce",
    ]
    assert parse_values("seconds", ["90s,2m"]) == [90.0, 120.0]
    assert parse_values("lr", ["0.1,1e-3"]) == [0.1, 0.001]
    assert parse_values("mps", ["off"]) == [False]
    with pytest.raises(SpecError, match="--workers two is not valid: it must be a whole number"):
        parse_values("workers", ["two"])


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", ".hidden", "..a", "a/../../b", "a\\b", "a\0b", "x" * 999])
def test_the_folder_of_a_name_lies_where_it_is_put(name: str) -> None:
    assert make_study({"name": name, "workload": "vae", "steps": 4}).name == name
    folder = Path("runs") / slug(name)
    assert folder.parent == Path("runs")
    assert folder.resolve() == Path("runs").resolve() / folder.name
    assert 0 < len(folder.name.lstrip(".")) == len(folder.name) <= 40


SEEDS = tuple(f"seed-00{number}" for number in range(5))


def test_there_is_a_ready_study_for_every_seed_and_the_demo() -> None:
    assert {"demo", *SEEDS} <= catalogue.ready().keys()
    assert catalogue.find("demo") == catalogue.FOLDER / "demo.toml"
    assert catalogue.find("vae") is catalogue.find("vae:channels=8") is catalogue.find("my.module:function") is None
    assert catalogue.find("mine.toml") == Path("mine.toml")
    with pytest.raises(SpecError, match="Did you mean 'seed-002'"):
        catalogue.find("seed-02")


@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("name", catalogue.ready())
def test_every_ready_study_can_run_on_two_cores_and_on_more(
    name: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: tuple(range(cores)))
    study = read_study(catalogue.ready()[name], full=False, flags={})
    nodes = max(int(value) for _, axes in study.blocks for value in axes.get("nodes", (1,)))
    site = Site(nodes, "1Gbps") if nodes > 1 else Site()
    assert spread(study, site).impossible == []


@pytest.mark.parametrize("name", SEEDS)
def test_every_seed_has_its_original_sizes(name: str) -> None:
    study = read_study(catalogue.ready()[name], full=True, flags={})
    grid = spread(study)
    assert any(cell.spec is not None for cell in grid.cells)
    for cell in grid.impossible:
        assert "devices" in str(cell.problem) or "GPUs" in str(cell.problem), cell.problem
