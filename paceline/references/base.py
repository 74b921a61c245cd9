"""A table of figures as published: its rows, how they were measured, and one definition of speed-up and efficiency."""

import decimal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Scaling = Literal["weak", "strong"]
Included = Literal["warm-up", "compilation", "start-up", "validation"]
RateFrom = Literal["all workers", "rank 0", "first process"]
_RATIOS = ("throughput", "speedup", "efficiency")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table, as published. A value that is not given is None, never 0."""

    workers: int | None = None
    devices: int | None = None
    """All devices in use, including those of servers."""

    workers_per_device: int | None = None
    nodes: int | None = None
    uncounted_devices: int | None = None
    """Devices that only hosted servers and are not in `devices`."""

    machine: str | None = None
    batch: int | None = None
    """Samples per worker and update."""

    global_batch: int | None = None
    steps: int | None = None
    """Steps in `seconds`."""

    step_seconds: float | None = None
    sync_seconds: float | None = None
    """The seconds of a step spent synchronising."""

    seconds: float | None = None
    """The duration of `steps` where they are given, otherwise of the whole run."""

    throughput: float | None = None
    """Units per second over all workers."""

    speedup: float | None = None
    efficiency: float | None = None
    """A fraction: 0.9, not 90."""

    efficiency_low: float | None = None
    """The lower end of the efficiency's 95 % interval, where there is one."""

    epochs: float | None = None
    samples: int | None = None
    """Samples that all workers processed in the whole run."""

    updates: int | None = None
    loss: float | None = None
    val_loss: float | None = None
    utilisation_percent: float | None = None
    ranks: tuple[int, ...] = ()
    """Ranks that a log of this run shows."""

    remarks: tuple[str, ...] = ()
    """Remarks of the author about this row."""

    line: int | None = None
    """The line number in a file."""

    @property
    def used_devices(self) -> float | None:
        """All devices that this row used, including those that the table did not count."""
        counted: float | None = self.devices
        if counted is None and self.workers is not None:
            counted = self.workers / (self.workers_per_device or 1)
        return None if counted is None else counted + (self.uncounted_devices or 0)

    @property
    def whole_batch(self) -> int | None:
        """Samples per update over all workers (the global batch)."""
        if self.global_batch is not None or self.batch is None or self.workers is None:
            return self.global_batch
        return self.batch * self.workers


@dataclass(frozen=True, kw_only=True)
class Method:
    """How the figures were measured. None means unknown."""

    window_includes: tuple[Included, ...] | None = None
    """What was timed besides steady steps; empty where nothing else was timed."""

    steps_counted: int | None = None
    steps_timed: int | None = None
    rate_from: RateFrom | None = None
    """Whose rate was measured; any but `all workers` was multiplied. A process drives all workers of a node."""

    statistic: Literal["median", "mean"] | None = None
    dataset_samples: int | None = None
    shard: bool | None = None
    """Whether an epoch is one pass by all workers together, or one pass by each worker."""

    last_batch_counted_whole: bool | None = None
    reduction: Literal["mean", "sum"] | None = None
    lr_rule: Literal["none", "linear", "sqrt"] | None = None
    same_machines: bool | None = None
    """Whether all rows were measured on the same machines, not only on equal ones."""

    baseline_machine: str | None = None
    """The machine whose one-worker rate the published speed-ups are relative to."""

    measured_on: str | None = None
    ideal_from: str | None = None
    """The machine whose one-worker rate defines the drawn ideal line."""

    servers_counted: bool | None = None
    """Whether the published devices include those that only hosted servers; None where there were none."""

    compiled: bool | None = None
    bandwidth_bits_per_second: float | None = None
    """The bandwidth of the link, as stated."""

    fitted_bandwidth_bits_per_second: tuple[float, float] | None = None
    """The range of bandwidths that fits the published step times by the ring law."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Rows that differ in the number of workers, and in what follows from it."""

    label: str
    rows: tuple[Row, ...] = ()
    workload: str | None = None
    strategy: str | None = None
    feed: str | None = None
    scaling: Scaling | None = None
    unit: str | None = None
    units_per_sample: float | None = None
    """Units per sample where throughput does not count samples, such as words in a sentence."""

    mps: bool | None = None
    """Whether workers on one GPU computed at the same time, under MPS; None where none shared one."""

    method: Method = field(default_factory=Method)
    decimals: Mapping[str, int] = field(default_factory=dict)
    """Published digits after the decimal point, by column; other columns have as many as their values show."""

    def rate(self, row: Row) -> float | None:
        """Units per second: as published, or else computed from work and time."""
        return row.throughput if row.throughput is not None else self.counted_rate(row)

    def counted_rate(self, row: Row) -> float | None:
        """Units per second by counting: steps × global batch ÷ seconds."""
        whole = row.whole_batch
        if whole is None:
            return None
        units = whole * (self.units_per_sample or 1)
        if row.steps is not None and row.seconds is not None:
            return row.steps * units / row.seconds
        return None if row.step_seconds is None else units / row.step_seconds

    @cached_property
    def written_decimals(self) -> Mapping[str, int]:
        """Digits after the decimal point of each column with ratios: as published, or as many as its values show."""
        missing = [name for name in _RATIOS if name not in self.decimals]
        shown = {name: max((_decimals(getattr(row, name)) for row in self.rows), default=0) for name in missing}
        return {**shown, **self.decimals}

    @cached_property
    def alone(self) -> tuple[Row, ...]:
        """Rows of one worker on one device with a known rate."""
        return tuple(r for r in self.rows if r.workers == 1 and r.used_devices == 1 and self.rate(r) is not None)

    @cached_property
    def divides_one_batch(self) -> bool:
        """Whether all rows share a global batch, of which each worker has a part (strong scaling)."""
        wholes = {row.whole_batch for row in self.rows}
        return len(wholes) == 1 and None not in wholes and len({row.workers for row in self.rows}) > 1

    def baseline(self, row: Row) -> Row | None:
        """The baseline of a row: one worker with the same machine and batch; the fastest if there are several."""
        if row in self._alone_itself:
            return row
        machine = row.machine or self.method.baseline_machine
        key = (machine, row.batch, row.whole_batch)
        if key not in self._baselines:
            candidates = [r for r in self._fastest_alone if _same(machine, r.machine) and self.same_setting(row, r)]
            self._baselines[key] = max(candidates, key=lambda r: self.rate(r) or 0, default=None)
        return self._baselines[key]

    def has_baseline_of_setting(self, row: Row) -> bool:
        """Whether a row of one worker, of any machine, has the same batch."""
        key = (row.batch, row.whole_batch)
        if key not in self._settings_alone:
            self._settings_alone[key] = any(self.same_setting(row, alone) for alone in self._fastest_alone)
        return self._settings_alone[key]

    @cached_property
    def _settings_alone(self) -> dict[tuple[object, ...], bool]:
        """Whether there is a row of one worker, by the batches compared so far."""
        return {}

    @cached_property
    def _alone_itself(self) -> frozenset[Row]:
        """The rows of one worker, which are their own baseline."""
        return frozenset(self.alone)

    @cached_property
    def _fastest_alone(self) -> tuple[Row, ...]:
        """Of the rows of one worker, the fastest of each machine and batch, in the order of the table."""
        fastest: dict[tuple[object, ...], Row] = {}
        for row in self.alone:
            key = (row.machine, row.batch, row.global_batch)
            if key not in fastest or (self.rate(row) or 0) > (self.rate(fastest[key]) or 0):
                fastest[key] = row
        return tuple(fastest.values())

    @cached_property
    def _baselines(self) -> dict[tuple[object, ...], Row | None]:
        """Baselines found so far, by what they depend on."""
        return {}

    def same_setting(self, row: Row, alone: Row) -> bool:
        """Whether one worker had the same batch per worker (weak scaling) or the same global batch (strong)."""
        weak = _same(row.batch, alone.batch)
        strong = _same(row.whole_batch, alone.whole_batch)
        return {"weak": weak, "strong": strong, None: weak or strong}[self.scaling]

    def speedup(self, row: Row) -> float | None:
        """Rate ÷ rate of one worker on one device; as published where a rate is unknown."""
        baseline, rate = self.baseline(row), self.rate(row)
        alone = self.rate(baseline) if baseline is not None else None
        return row.speedup if rate is None or alone is None else rate / alone

    def efficiency(self, row: Row) -> float | None:
        """Speed-up ÷ devices, including those that only host servers; as published where the speed-up is unknown."""
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
    """A table, published, our own or the user's."""

    name: str
    title: str
    source: str
    hardware: str = "not stated"
    devices: Mapping[str, str] = field(default_factory=dict)
    """The device name for `--device emulated:…`, by machine; `all` for rows that name no machine."""

    workload: str = "not stated"
    baseline: str = "not stated"
    """The baseline of its speed-ups, in words."""

    columns: tuple[PublishedColumn, ...] = ()
    across: bool = False
    """Whether the original has a column per series and a row per count of workers."""

    notes: tuple[str, ...] = ()
    used: Mapping[str, str] = field(default_factory=dict)
    """What the columns of a user's table mean, by heading; empty for other tables."""

    unused: tuple[str, ...] = ()
    """The headings of a user's table that are not read."""

    series: tuple[Series, ...]


def _decimals(value: float | None) -> int:
    """Digits after the point: 5.25 → 2, 40.0 → 0."""
    exponent = 0 if value is None else decimal.Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _same(first: object, second: object) -> bool:
    """Whether two values are equal, or one of them is unknown."""
    return first is None or second is None or first == second
