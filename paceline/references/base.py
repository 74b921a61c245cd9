"""A table of figures as published: its rows, how they were measured, and one definition of speed-up and efficiency."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scaling = Literal["weak", "strong"]
Included = Literal["warm-up", "compilation", "start-up", "validation"]
RateFrom = Literal["all workers", "rank 0", "first process"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table, as published. Not given is None, never 0."""

    workers: int | None = None
    devices: int | None = None
    """All that were used, servers' own ones included."""

    workers_per_device: int | None = None
    nodes: int | None = None
    uncounted_devices: int | None = None
    """Devices that only served and are not in `devices`."""

    machine: str | None = None
    batch: int | None = None
    """Samples per worker and update."""

    global_batch: int | None = None
    steps: int | None = None
    """Steps in `seconds`."""

    step_seconds: float | None = None
    sync_seconds: float | None = None
    """The part of a step spent synchronising."""

    seconds: float | None = None
    """Of `steps` where they are given, of the whole run otherwise."""

    throughput: float | None = None
    """Units per second of all workers together."""

    speedup: float | None = None
    efficiency: float | None = None
    """As a share: 0.9, not 90."""

    efficiency_low: float | None = None
    """The lower end of its 95 % interval, where there is one."""

    epochs: float | None = None
    samples: int | None = None
    """Seen in the whole run by all workers."""

    updates: int | None = None
    loss: float | None = None
    val_loss: float | None = None
    utilisation_percent: float | None = None
    ranks: tuple[int, ...] = ()
    """Ranks that a log of this run shows."""

    remarks: tuple[str, ...] = ()
    """What whoever measured says about this row."""

    line: int | None = None
    """Where it stands in a file."""

    @property
    def used_devices(self) -> float | None:
        """Devices that worked for this row, whether the table counted them or not."""
        counted: float | None = self.devices
        if counted is None and self.workers is not None:
            counted = self.workers / (self.workers_per_device or 1)
        return None if counted is None else counted + (self.uncounted_devices or 0)

    @property
    def whole_batch(self) -> int | None:
        """Samples per update of all workers."""
        if self.global_batch is not None or self.batch is None or self.workers is None:
            return self.global_batch
        return self.batch * self.workers


@dataclass(frozen=True, kw_only=True)
class Method:
    """How the figures came about. Not known is None."""

    window_includes: tuple[Included, ...] | None = None
    """What was timed beside steps at their usual pace; empty where it was left out."""

    steps_counted: int | None = None
    steps_timed: int | None = None
    rate_from: RateFrom | None = None
    """Whose rate was measured; what is not `all workers` was multiplied. A process drives all workers of a node."""

    statistic: Literal["median", "mean"] | None = None
    dataset_samples: int | None = None
    shard: bool | None = None
    """Whether an epoch is one pass of all workers together, or of each of them."""

    last_batch_counted_whole: bool | None = None
    reduction: Literal["mean", "sum"] | None = None
    lr_rule: Literal["none", "linear", "sqrt"] | None = None
    same_machines: bool | None = None
    """Whether all rows were measured on the same machines, not only on equal ones."""

    baseline_machine: str | None = None
    """Whose one-worker rate the published speed-ups were divided by."""

    measured_on: str | None = None
    ideal_from: str | None = None
    """Whose one-worker rate a drawn ideal line was made of."""

    servers_counted: bool | None = None
    """Whether devices that only served are among the published ones; None where there were none."""

    compiled: bool | None = None
    bandwidth_bits_per_second: float | None = None
    """Of the link, as stated."""

    fitted_bandwidth_bits_per_second: tuple[float, float] | None = None
    """The band that the published step times follow by the ring law."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Rows that differ in how many workers there were, and in what follows from it."""

    label: str
    rows: tuple[Row, ...] = ()
    workload: str | None = None
    strategy: str | None = None
    feed: str | None = None
    scaling: Scaling | None = None
    unit: str | None = None
    units_per_sample: float | None = None
    """Where throughput does not count samples: words in a sentence."""

    method: Method = field(default_factory=Method)
    decimals: Mapping[str, int] = field(default_factory=dict)
    """By column, digits after the point as published; of a column that is not in it, as many as its values have."""

    def rate(self, row: Row) -> float | None:
        """Units per second: as published, or else from what was done in the time."""
        return row.throughput if row.throughput is not None else self.counted_rate(row)

    def counted_rate(self, row: Row) -> float | None:
        """Units per second by counting: steps × batch of all workers ÷ seconds."""
        whole = row.whole_batch
        if whole is None:
            return None
        units = whole * (self.units_per_sample or 1)
        if row.steps is not None and row.seconds is not None:
            return row.steps * units / row.seconds
        return None if row.step_seconds is None else units / row.step_seconds

    @property
    def alone(self) -> tuple[Row, ...]:
        """One worker on one device."""
        return tuple(r for r in self.rows if r.workers == 1 and r.used_devices == 1 and self.rate(r) is not None)

    def baseline(self, row: Row) -> Row | None:
        """What a row may be compared with: one worker of the same machine and batch; of several the fastest."""
        machine = row.machine or self.method.baseline_machine
        candidates = [r for r in self.alone if _same(machine, r.machine) and self.same_setting(row, r)]
        return row if row in candidates else max(candidates, key=lambda r: self.rate(r) or 0, default=None)

    def same_setting(self, row: Row, alone: Row) -> bool:
        """Whether one worker had a worker's batch (weak scaling) or that of all (strong)."""
        weak = _same(row.batch, alone.batch)
        strong = _same(row.whole_batch, alone.whole_batch)
        return {"weak": weak, "strong": strong, None: weak or strong}[self.scaling]

    def speedup(self, row: Row) -> float | None:
        """Rate ÷ rate of one worker on one device; where speeds are not given, as published."""
        baseline, rate = self.baseline(row), self.rate(row)
        alone = self.rate(baseline) if baseline is not None else None
        return row.speedup if rate is None or alone is None else rate / alone

    def efficiency(self, row: Row) -> float | None:
        """Speed-up ÷ devices, those that only serve included; where there is no speed-up, as published."""
        speedup, devices = self.speedup(row), row.used_devices
        return row.efficiency if speedup is None or devices is None else speedup / devices


@dataclass(frozen=True, kw_only=True)
class PublishedColumn:
    """A column of the original table."""

    heading: str
    field: str
    """The field of `Row` that holds it."""

    meaning: str


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A table, whoever made it."""

    name: str
    title: str
    source: str
    hardware: str = "not stated"
    devices: Mapping[str, str] = field(default_factory=dict)
    """By machine, what its devices are called by `--device emulated:…`; `all` for rows that name no machine."""

    workload: str = "not stated"
    baseline: str = "not stated"
    """What its speed-ups are against, in words."""

    columns: tuple[PublishedColumn, ...] = ()
    across: bool = False
    """Whether the original has a column per series and a row per count of workers."""

    notes: tuple[str, ...] = ()
    series: tuple[Series, ...]


def _same(first: object, second: object) -> bool:
    """Equal as far as is known."""
    return first is None or second is None or first == second
