"""What to run: refusals that name the flag and the remedy, and plain data in and out."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import SpecError
from paceline.settings import read_toml
from paceline.spec import SETTINGS, RunSpec


def spec(**settings: Any) -> RunSpec:
    length = {} if settings.keys() & {"steps", "epochs", "seconds"} else {"steps": 1}
    return RunSpec(**{"workload": "vae", **length, **settings})


COUNTS = ("workers", "workers_per_device", "cores_per_device", "batch", "accumulate", "steps", "epochs")
AMOUNTS = ("seconds", "lr", "clip_norm", "timeout")


@pytest.mark.parametrize("name", [*COUNTS, "checkpoint_every"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_count_below_one_is_refused_by_its_flag(name: str, value: int) -> None:
    with pytest.raises(SpecError) as refused:
        spec(**{name: value})
    flag = f"--{name.replace('_', '-')}"
    assert str(refused.value) == f"{flag} {value} is not valid: it must be at least 1."


@pytest.mark.parametrize(("name", "more"), [("seed", {}), ("lr_warmup", {"lr_rule": "linear"})])
def test_a_negative_number_is_refused_by_its_flag(name: str, more: dict[str, Any]) -> None:
    assert getattr(spec(**{name: 0}, **more), name) == 0
    with pytest.raises(SpecError, match=rf"--{name.replace('_', '-')} -1 is not valid: it must be (at least|from) 0"):
        spec(**{name: -1}, **more)


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("value", [0.0, -0.5, float("inf"), float("nan")])
def test_an_amount_must_be_above_zero_and_finite(name: str, value: float) -> None:
    with pytest.raises(SpecError) as refused:
        spec(**{name: value})
    flag = f"--{name.replace('_', '-')}"
    assert str(refused.value) == f"{flag} {value} is not valid: it must be above 0 and finite."


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lr_rule", "liner", "Did you mean 'linear'? Valid: none, linear, sqrt."),
        ("precision", "fp64", "Valid: fp32, bf16."),
        ("validate", "ends", "Did you mean 'end'? Valid: epoch, end, off."),
    ],
)
def test_an_unknown_choice_is_refused_with_the_valid_ones(name: str, value: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec(**{name: value})
    assert f"--{name.replace('_', '-')}" in str(refused.value)
    assert repr(value) in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": None}, "one of --steps, --epochs and --seconds"),
        ({"steps": 1, "epochs": 1}, "one of --steps, --epochs and --seconds"),
        ({"epochs": 1, "seconds": 1.0}, "one of --steps, --epochs and --seconds"),
        ({"workers": 3, "workers_per_device": 2}, "--workers 3 .* --workers-per-device 2: use a multiple of 2"),
        ({"batch": 2, "accumulate": 3}, "--accumulate 3 cannot divide --batch 2: a micro-batch needs a sample"),
        ({"lr_warmup": 5}, "--lr-warmup 5 needs --lr-rule linear or sqrt"),
        ({"lr_warmup": 0}, "--lr-warmup 0 needs --lr-rule linear or sqrt"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_with_the_remedy(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        spec(**settings)


@pytest.mark.parametrize(
    ("name", "value", "noun"),
    [
        ("workers", 2.5, "a whole number"),
        ("workers", "2", "a whole number"),
        ("workers", True, "a whole number"),
        ("workers", None, "a whole number"),
        ("steps", 2.0, "a whole number"),
        ("lr", "high", "a number"),
        ("lr", True, "a number"),
        ("mps", "off", "true or false"),
        ("mps", 1, "true or false"),
        ("workload", 3, "a string"),
        ("strategy", ["allreduce"], "a string"),
        ("lr_rule", 1, "a string"),
        ("validate", False, "a string"),
    ],
)
def test_a_value_of_another_type_is_refused_as_a_file_may_hold_it(name: str, value: Any, noun: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec(**{name: value})
    assert str(refused.value) == f"--{name.replace('_', '-')} {value!r} is not valid: it must be {noun}."


def test_a_whole_number_is_a_number() -> None:
    assert spec(lr=1, seconds=30).seconds == 30


FULL = RunSpec(
    workload="nmt:units=64",
    workers=4,
    workers_per_device=2,
    cores_per_device=3,
    nodes=2,
    network="1Gbps",
    device="cuda",
    mps=True,
    strategy="ps:servers=2",
    feed="synthetic:at=host",
    batch=8,
    accumulate=2,
    seconds=12.5,
    until_percent=3.0,
    turn=2,
    variant="B",
    lr=0.1,
    lr_rule="sqrt",
    lr_warmup=7,
    clip_norm=1.5,
    optimizer="sgd",
    slow_motion=2.0,
    precision="bf16",
    validate="end",
    seed=9,
    timeout=60.0,
    checkpoint_every=5,
    resume="runs/x",
)


def test_every_setting_survives_plain_data_and_json() -> None:
    defaults = spec()
    unchanged = {f.name for f in dataclasses.fields(RunSpec) if getattr(FULL, f.name) == getattr(defaults, f.name)}
    assert unchanged <= {"epochs", "timing"}, "a setting that is not tried"
    for one in (FULL, defaults, spec(epochs=3), RunSpec(workload="vae", timing="fixed:warmup=3,steps=4")):
        assert RunSpec.from_dict(one.to_dict()) == one
        assert RunSpec.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_a_spec_cannot_be_changed_and_a_changed_copy_is_checked_again() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec().workers = 2  # type: ignore[misc]
    with pytest.raises(SpecError, match="--batch 0 is not valid"):
        dataclasses.replace(spec(), batch=0)


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"'worker' is not a known setting of a run. Did you mean 'workers'"):
        RunSpec.from_dict({"workload": "vae", "steps": 1, "worker": 2})
    with pytest.raises(SpecError, match="workload"):
        RunSpec.from_dict({"steps": 1})


def test_settings_are_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('workload = "vae:samples=5"\nworkers = 2\nseconds = 1.5\nmps = false\n')
    assert RunSpec.from_dict(read_toml(file, SETTINGS)) == RunSpec(workload="vae:samples=5", workers=2, seconds=1.5)
    file.write_bytes(b"\xff")
    with pytest.raises(SpecError, match=r"run.toml is not TOML"):
        read_toml(file, SETTINGS)
    with pytest.raises(SpecError, match=r"cannot be read .*: give a TOML file"):
        read_toml(tmp_path / "missing.toml", SETTINGS)


def test_a_run_that_ends_by_itself_may_have_two_ceilings_or_none() -> None:
    for ceilings in ({}, {"steps": 10}, {"seconds": 5.0}, {"steps": 10, "seconds": 5.0}, {"epochs": 1, "seconds": 5.0}):
        assert RunSpec(workload="vae", until_percent=2.0, **ceilings).until_percent == 2.0
    with pytest.raises(SpecError, match="--steps or --epochs as upper limit, not both"):
        RunSpec(workload="vae", until_percent=2.0, steps=3, epochs=1)
    with pytest.raises(SpecError, match="--until-percent 0"):
        RunSpec(workload="vae", until_percent=0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"timing": "fixed", "seconds": 3.0}, "--timing fixed runs 30 steps: leave out --seconds"),
        ({"timing": "fixed", "steps": 20}, "leave out --steps"),
        ({"timing": "fixed", "until_percent": 2.0}, "--until-percent needs --timing detected"),
        ({"timing": "fixed:warmup=-1"}, "must be at least 0"),
        ({"timing": "fixed:steps=0"}, "must be at least 1"),
        ({"timing": "fixed:step=3"}, "Did you mean 'steps'"),
        ({"timing": "fix"}, "Did you mean 'fixed'"),
        ({"timing": "detected:warmup=3", "steps": 3}, "detected has no options"),
    ],
)
def test_timing_says_how_many_steps_there_are_and_nothing_else_may(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        RunSpec(workload="vae", **settings)
