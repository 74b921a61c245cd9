"""What to run: one frozen dataclass; each field also declares how code treats that setting."""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from paceline.errors import SpecError
from paceline.grammar import choose, require
from paceline.settings import Baseline, Role, Seconds, Setting, SettingValue, setting, settings_of
from paceline.timing import fixed_timing

BASELINE_STRATEGY = "independent"
"""The strategy of a worker that runs alone: no exchange."""

_FIRST = "Most used"
_LENGTH = "How long"
_LEARNING = "Learning"
_PLACE = "Where it runs"
_RUNNING = "Checkpoints and faults"

_RUN = (Role.IDENTITY, Role.AXIS)
_COMPUTING = (*_RUN, Role.STEP, Role.SERIES, Role.CURVE)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training run."""

    workload: str = setting(
        help="A name from `paceline workloads`, or package.module:function.",
        group=_FIRST,
        roles=(*_COMPUTING, Role.CHECKPOINT, Role.SUMMARY, Role.TITLE),
        baseline=Baseline.SAME,
        from_flag=False,  # an argument of its own
    )
    workers: int = setting(
        1,
        help="Worker processes, each with a replica of the model.",
        axis_help="Worker processes: 1,2,4.",
        group=_FIRST,
        roles=(*_RUN, Role.CHECKPOINT, Role.SUMMARY, Role.TITLE),
        baseline=Baseline.ALONE,
        alone=1,
        varies=2,
        least=1,
    )
    strategy: str = setting(
        "allreduce",
        help="How workers keep their replicas in agreement; see `paceline strategies`.",
        group=_FIRST,
        roles=(*_RUN, Role.SERIES, Role.CURVE, Role.CHECKPOINT, Role.SUMMARY, Role.TITLE),
        baseline=Baseline.ALONE,
        alone=BASELINE_STRATEGY,
    )
    batch: int | None = setting(
        None,
        help="Samples per worker and update (default: the workload's).",
        axis_help="Samples per update: of each worker or, with --scaling strong, of all workers together.",
        group=_FIRST,
        roles=(*_RUN, Role.CURVE, Role.CHECKPOINT, Role.SUMMARY, Role.TITLE, Role.RECIPE),
        baseline=Baseline.SAME,
        words="batch {}",
        least=1,
    )
    feed: str = setting(
        "dataset",
        help="Where batches come from; see `paceline feeds`.",
        group=_FIRST,
        roles=(*_COMPUTING, Role.CHECKPOINT, Role.SUMMARY),
        baseline=Baseline.SAME,
    )

    steps: int | None = setting(
        None,
        help="Train for this many updates.",
        group=_FIRST,
        roles=(*_RUN, Role.LENGTH, Role.CURVE),
        baseline=Baseline.ANY,
        words="{} steps",
        least=1,
    )
    epochs: int | None = setting(
        None,
        help="Train for this many passes over the data.",
        group=_FIRST,
        roles=(*_RUN, Role.LENGTH, Role.CURVE),
        baseline=Baseline.ANY,
        words="{} epochs",
        least=1,
    )
    seconds: Seconds | None = setting(
        None,
        help="Train for this long: 30s, 5m. Start-up and validation are not included.",
        group=_FIRST,
        roles=(*_RUN, Role.LENGTH, Role.CURVE),
        baseline=Baseline.ANY,
        words="{} s",
        above=0,
    )
    until_percent: float | None = setting(
        None,
        help="Stop once the 95 % interval of the throughput is within ± this many percent; --steps, --epochs and "
        "--seconds are then upper limits (default: 10 minutes).",
        axis_help="Stop a run once its throughput is known within ± this many percent.",
        group=_LENGTH,
        roles=(*_RUN, Role.CURVE),
        baseline=Baseline.ANY,
        words="within {} %",
        above=0,
    )
    timing: str = setting(
        "detected",
        help="Which steps are timed: detected (after a warm-up detected in the data), or fixed:warmup=10,steps=20 as "
        "older benchmarks did.",
        axis_help="detected, or fixed:warmup=10,steps=20.",
        group=_LENGTH,
        roles=(*_RUN, Role.CURVE, Role.SUMMARY),
        baseline=Baseline.SAME,
    )

    lr: float | None = setting(
        None,
        help="Learning rate (default: the workload's).",
        group=_LEARNING,
        roles=(*_RUN, Role.CURVE, Role.CHECKPOINT, Role.RECIPE),
        baseline=Baseline.ANY,
        words="lr {}",
        above=0,
    )
    lr_rule: Literal["none", "linear", "sqrt"] = setting(
        "none",
        help="How the learning rate grows with the workers: none, linear or sqrt.",
        group=_LEARNING,
        roles=(*_RUN, Role.CURVE, Role.CHECKPOINT, Role.RECIPE),
        baseline=Baseline.UNUSED,
        alone="none",
        words="lr rule {}",
    )
    lr_warmup: int | None = setting(
        None,
        help="Updates over which the learning rate warms up to its scaled value (default: 100 with a rule).",
        group=_LEARNING,
        roles=(*_RUN, Role.CURVE, Role.CHECKPOINT, Role.RECIPE),
        baseline=Baseline.UNUSED,
        words="lr warm-up {}",
        least=0,
    )
    optimizer: Literal["own", "sgd"] | None = setting(
        None,
        help="own (the workload's) or sgd (default: own; sgd with emulated devices).",
        axis_help="own (the workload's) or sgd; repeat the flag for several.",
        group=_LEARNING,
        roles=(*_COMPUTING, Role.CHECKPOINT, Role.RECIPE),
        baseline=Baseline.SAME,
        words="optimizer {}",
        implied="own",
    )
    clip_norm: float | None = setting(
        None,
        help="Clip gradients to this global norm.",
        group=_LEARNING,
        roles=(*_COMPUTING, Role.CHECKPOINT, Role.RECIPE),
        baseline=Baseline.SAME,
        words="clip norm {}",
        above=0,
    )
    accumulate: int = setting(
        1,
        help="Gradient accumulation: divide each worker's batch into this many micro-batches.",
        group=_LEARNING,
        roles=(*_COMPUTING, Role.CHECKPOINT),
        baseline=Baseline.SAME,
        words="accumulate {}",
        least=1,
    )
    precision: Literal["fp32", "bf16"] = setting(
        "fp32",
        help="fp32, or bf16 for matrix products in bfloat16.",
        group=_LEARNING,
        roles=(*_COMPUTING, Role.CHECKPOINT, Role.SUMMARY),
        baseline=Baseline.SAME,
    )
    validate: Literal["epoch", "end", "off"] | None = setting(
        None,
        help="When to validate: epoch (after every epoch and at the end), end, or off (default: epoch; off with a "
        "synthetic feed).",
        axis_help="epoch, end or off (default: off).",
        group=_LEARNING,
        roles=(*_RUN,),
        baseline=Baseline.ANY,
        words="validate {}",
    )
    seed: int = setting(
        0,
        help="Seed of the initial weights, data order and noise.",
        group=_LEARNING,
        roles=(*_RUN, Role.CURVE, Role.CHECKPOINT),
        baseline=Baseline.ANY,
        words="seed {}",
        least=0,
        most=2**63 - 1,
    )

    device: str = setting(
        "auto",
        help="auto, cpu, cuda, or emulated:NAME with a published device (2080ti), rate=500 or a profile's file.",
        axis_help="auto, cpu, cuda or emulated:…; repeat the flag for several.",
        group=_PLACE,
        roles=_COMPUTING,
        baseline=Baseline.SAME,
        usual=("cpu", "cuda"),
    )
    workers_per_device: int = setting(
        1,
        help="Workers that share one device.",
        axis_help="Workers that share one device: 1,2, or fit.",
        group=_PLACE,
        roles=(*_RUN, Role.STEP, Role.CURVE),
        baseline=Baseline.ALONE,
        alone=1,
        words="{} per device",
        varies=1,
        least=1,
    )
    cores_per_device: int = setting(
        1,
        help="On CPU, how many cores make one device.",
        group=_PLACE,
        roles=_COMPUTING,
        baseline=Baseline.SAME,
        words="{} cores per device",
        least=1,
    )
    nodes: int = setting(
        1,
        help="In a testbed, the hosts to spread the workers over (default: all of them).",
        axis_help="In a testbed, the hosts to spread the workers over: 1,2.",
        group=_PLACE,
        roles=(*_RUN, Role.FROM_SITE),
        baseline=Baseline.ALONE,
        words="{} nodes",
        alone=1,
        least=1,
    )
    network: str | None = setting(
        None,
        help="In a testbed, the links of this run instead of the testbed's own: 100Mbps.",
        axis_help="In a testbed, the links between hosts; repeat the flag for several.",
        group=_PLACE,
        roles=(*_RUN, Role.CURVE, Role.FROM_SITE),
        baseline=Baseline.ALONE,
    )
    slow_motion: float = setting(
        1.0,
        help="Run emulated devices and links this many times slower; reported figures are rescaled.",
        axis_help="Run emulated devices and links this many times slower: 1,2.",
        group=_PLACE,
        roles=(*_RUN, Role.CURVE),
        baseline=Baseline.PREFERRED,
        words="slow motion {}",
        above=0,
        least=1e-3,
        most=1e4,
    )
    mps: bool = setting(
        False,
        help="on: run NVIDIA's MPS daemon, so that workers compute on one GPU at the same time.",
        group=_PLACE,
        roles=(*_RUN, Role.CURVE),
        baseline=Baseline.UNUSED,
        alone=False,
        words="mps {}",
    )

    checkpoint_every: int | None = setting(
        None,
        help="Save a checkpoint every N updates.",
        group=_RUNNING,
        roles=(Role.IDENTITY, Role.OPERATION),
        baseline=Baseline.ANY,
        words="checkpoint every {}",
        least=1,
    )
    resume: str | None = setting(
        None,
        help="Resume from a run folder or a checkpoint.",
        group=_RUNNING,
        roles=(Role.IDENTITY, Role.OPERATION),
        baseline=Baseline.ANY,
        words="resumed from {}",
    )
    timeout: Seconds | None = setting(
        None,
        help="Treat a run without progress for this long as hanging (default: 30 s or ten steps, whichever is longer).",
        axis_help="Treat a run without progress for this long as hanging.",
        group=_RUNNING,
        roles=(*_RUN, Role.OPERATION),
        baseline=Baseline.ANY,
        words="timeout {} s",
        above=0,
    )
    turn: int = setting(
        0,
        help="Which repeat of the same settings this is; a study compares runs of the same turn.",
        group=_RUNNING,
        roles=(Role.OPERATION,),
        baseline=Baseline.ANY,
        from_flag=False,  # a study counts it
        least=0,
    )
    variant: str | None = setting(
        None,
        help="The name of a study's variant, where another variant has the same settings.",
        group=_RUNNING,
        roles=(Role.IDENTITY, Role.SERIES),
        baseline=Baseline.ALONE,
        from_flag=False,  # a study names it
    )

    def __post_init__(self) -> None:
        for one in SETTINGS.values():
            one.check(getattr(self, one.name))
        self._check_length()
        require(
            self.workers % self.workers_per_device == 0,
            f"--workers {self.workers} does not fill devices of --workers-per-device {self.workers_per_device}: "
            f"use a multiple of {self.workers_per_device}.",
        )
        if self.batch is not None:
            require(
                self.batch >= self.accumulate,
                f"--accumulate {self.accumulate} cannot divide --batch {self.batch}: a micro-batch needs a sample. "
                f"Use at most {self.batch}.",
            )
        require(
            self.lr_warmup is None or self.lr_rule != "none",
            f"--lr-warmup {self.lr_warmup} needs --lr-rule linear or sqrt: without a rule the rate is not scaled.",
        )

    def _check_length(self) -> None:
        lengths = [name for name in with_role(Role.LENGTH) if getattr(self, name) is not None]
        flags = [SETTINGS[name].flag for name in lengths]
        fixed = fixed_timing(self.timing)
        if fixed is not None:
            require(
                not lengths or (lengths == ["steps"] and self.steps == fixed.total),
                f"--timing {self.timing} runs {fixed.total} steps: leave out {' and '.join(flags)}.",
            )
            require(self.until_percent is None, f"--until-percent needs --timing detected, not {self.timing}.")
        elif self.until_percent is not None:
            both = self.steps is not None and self.epochs is not None
            require(not both, "Give --steps or --epochs as upper limit, not both.")
        else:
            require(len(lengths) == 1, "Say how long to train with one of --steps, --epochs and --seconds.")

    @property
    def is_alone(self) -> bool:
        """Whether this is one worker that exchanges nothing, as a baseline is."""
        return self.workers == 1 and self.strategy == BASELINE_STRATEGY

    def by_role(self, role: Role) -> dict[str, SettingValue]:
        """The values of all settings with a role, by name."""
        return {name: getattr(self, name) for name in with_role(role)}

    def replaced(self, values: Mapping[str, SettingValue]) -> "RunSpec":
        """The same run with other values of some settings."""
        return dataclasses.replace(self, **values)  # type: ignore[arg-type]  # checked by __post_init__

    def to_dict(self) -> dict[str, SettingValue]:
        """Plain data, for records and for worker processes."""
        return {name: getattr(self, name) for name in SETTINGS}

    @classmethod
    def from_dict(cls, values: Mapping[str, SettingValue]) -> "RunSpec":
        """The inverse of `to_dict`; unknown keys are refused."""
        for key in values:
            choose(key, SETTINGS, "setting of a run")
        try:
            return cls(**values)  # type: ignore[arg-type]  # checked by __post_init__
        except TypeError as error:  # there is no workload
            raise SpecError(f"A run cannot be made of {dict(values)}: {error}.") from None


SETTINGS: Mapping[str, Setting] = settings_of(RunSpec)
"""Every setting of a run, by name."""


@functools.cache
def with_role(role: Role) -> tuple[str, ...]:
    """The names of the settings with a role, in the order of their declaration."""
    return tuple(name for name, one in SETTINGS.items() if one.has(role))


@functools.cache
def with_baseline(*policies: Baseline) -> tuple[str, ...]:
    """The names of the settings whose baseline follows one of these policies."""
    return tuple(name for name, one in SETTINGS.items() if one.baseline in policies)
