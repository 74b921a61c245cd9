"""What to run: one frozen dataclass, checked where it is made, as plain data in and out."""

import dataclasses
import functools
import math
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paceline.errors import SpecError
from paceline.grammar import choose, require
from paceline.timing import fixed_timing
from paceline.units import parse_seconds

LR_RULES = ("none", "linear", "sqrt")
PRECISIONS = ("fp32", "bf16")
VALIDATIONS = ("epoch", "end", "off")
OPTIMIZERS = ("own", "sgd")
LENGTHS = ("steps", "epochs", "seconds")

_SLOW_MOTION = 1e-3, 1e4
_CHOICES = {"lr_rule": LR_RULES, "precision": PRECISIONS, "validate": VALIDATIONS, "optimizer": OPTIMIZERS}

# What a field of each type accepts, and how that is called; the fields with choices hold words.
_TYPES: dict[type, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "a word"),
}


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training run."""

    workload: str
    """A catalogue name or `package.module:function`, with options."""

    workers: int = 1
    workers_per_device: int = 1
    cores_per_device: int = 1
    """On CPU, how many cores make one device."""

    nodes: int = 1
    """Hosts that the workers are divided among; never more than there are workers."""

    network: str | None = None
    """The links between nodes, as in a testbed's `1Gbps`; None on one node."""

    device: str = "auto"
    mps: bool = False
    """Whether to run NVIDIA's MPS daemon for the run, so that workers share a GPU at the same time."""

    slow_motion: float = 1.0
    """How many times slower emulated devices and the links between nodes are; figures are divided back."""

    strategy: str = "allreduce"
    feed: str = "dataset"
    batch: int | None = None
    """Samples per worker and update; None is the workload's own."""

    accumulate: int = 1
    """Micro-batches that a worker's batch is computed in."""

    steps: int | None = None
    epochs: int | None = None
    seconds: float | None = None
    """How long to train: exactly one of the three, unless the run ends by itself."""

    until_percent: float | None = None
    """End once the 95 % interval of the rate is within ± so many percent; steps, epochs and seconds are ceilings."""

    timing: str = "detected"
    """Which steps are timed: after a warm-up that is found in the data, or `fixed:warmup=10,steps=20`."""

    lr: float | None = None
    """None is the workload's own."""

    lr_rule: Literal["none", "linear", "sqrt"] = "none"
    """How the learning rate grows with the number of workers."""

    lr_warmup: int | None = None
    """Updates over which a scaled learning rate is reached; None is 100 with a rule, and none without."""

    clip_norm: float | None = None
    optimizer: Literal["own", "sgd"] | None = None
    """The workload's own, or plain SGD. None: the workload's own; where devices are emulated, sgd."""

    precision: Literal["fp32", "bf16"] = "fp32"
    validate: Literal["epoch", "end", "off"] | None = None
    """After every epoch and at the end, at the end only, or never. None: epoch, or off with a synthetic feed."""

    seed: int = 0
    timeout: float | None = None
    """Seconds without progress that count as a hang; None is the larger of 30 s and ten median steps."""

    checkpoint_every: int | None = None
    resume: str | None = None
    """A checkpoint to go on from."""

    turn: int = 0
    """Which repeat of the same settings this is; a study compares runs of the same turn."""

    def __post_init__(self) -> None:
        self._check_types()
        for name in ("workers", "workers_per_device", "cores_per_device", "nodes", "batch", "accumulate"):
            self._at_least(name, 1)
        self._at_least("steps", 1)
        self._at_least("epochs", 1)
        self._at_least("checkpoint_every", 1)
        self._at_least("lr_warmup", 0)
        self._at_least("seed", 0)
        self._at_least("turn", 0)
        require(self.seed < 2**63, f"--seed {self.seed} is not valid: it must be below 2⁶³.")
        for name in ("seconds", "until_percent", "lr", "clip_norm", "timeout", "slow_motion"):
            value = getattr(self, name)
            positive = value is None or 0 < value < math.inf
            require(positive, f"{_flag(name)} {value} is not valid: it must be above 0 and finite.")
        least, most = _SLOW_MOTION
        within = f"--slow-motion {self.slow_motion:g} is not valid: it must be from {least:g} to {most:g}."
        require(least <= self.slow_motion <= most, within)
        for name, choices in _CHOICES.items():
            if getattr(self, name) is not None:
                choose(getattr(self, name), choices, f"value of {_flag(name)}")
        self._check_together()

    def _check_types(self) -> None:
        """Values may come from a file, where `workers = 2.5` and `mps = "off"` are well written."""
        for name, annotation in _hints().items():
            value, kinds = getattr(self, name), typing.get_args(annotation) or (annotation,)
            accepted, noun = next((_TYPES[kind] for kind in kinds if kind in _TYPES), _TYPES[str])
            if value is None and type(None) in kinds:
                continue
            right = isinstance(value, accepted) and isinstance(value, bool) == (accepted is bool)
            require(right, f"{_flag(name)} {value!r} is not valid: it must be {noun}.")

    def _check_together(self) -> None:
        self._check_length()
        require(
            self.workers % self.workers_per_device == 0,
            f"--workers {self.workers} does not fill devices of --workers-per-device {self.workers_per_device}: "
            f"use a multiple of {self.workers_per_device}.",
        )
        if self.batch is not None:
            require(
                self.batch >= self.accumulate,
                f"--accumulate {self.accumulate} cannot divide --batch {self.batch}: a micro-batch needs a sample.",
            )
        require(
            self.lr_warmup is None or self.lr_rule != "none",
            f"--lr-warmup {self.lr_warmup} needs --lr-rule linear or sqrt: without a rule the rate stays as it is.",
        )

    def _check_length(self) -> None:
        lengths = [name for name in LENGTHS if getattr(self, name) is not None]
        fixed = fixed_timing(self.timing)
        if fixed is not None:
            require(
                not lengths or (lengths == ["steps"] and self.steps == fixed.total),
                f"--timing {self.timing} runs {fixed.total} steps: leave out {_flags(lengths)}.",
            )
            require(self.until_percent is None, f"--until-percent needs --timing detected, not {self.timing}.")
        elif self.until_percent is not None:
            require("steps" not in lengths or "epochs" not in lengths, "Give --steps or --epochs as ceiling, not both.")
        else:
            require(len(lengths) == 1, "Say how long to train with one of --steps, --epochs and --seconds.")

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        require(value is None or value >= least, f"{_flag(name)} {value} is not valid: it must be at least {least}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for records and for worker processes."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunSpec":
        """The inverse of `to_dict`; unknown keys are refused."""
        names = [f.name for f in dataclasses.fields(cls)]
        for key in values:
            choose(key, names, "setting of a run")
        try:
            return cls(**values)
        except TypeError as error:  # there is no workload
            raise SpecError(f"A run cannot be made of {dict(values)}: {error}.") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The settings of a run from a file, one `key = value` each; checked when a RunSpec is made of them."""
    try:
        settings = tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(
            f"{path} cannot be read ({error.strerror}): give a TOML file with settings of a run."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML: {error}.") from error
    for name in ("seconds", "timeout"):  # "90s", as on the command line
        if isinstance(settings.get(name), str):
            settings[name] = parse_seconds(settings[name])
    return settings


@functools.cache
def _hints() -> dict[str, Any]:
    """Looked up once: a study makes thousands of specs."""
    return typing.get_type_hints(RunSpec)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flags(names: Iterable[str]) -> str:
    return " and ".join(_flag(name) for name in names)
