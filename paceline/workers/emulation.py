"""Emulate a model whose forward and backward take the time of another device; its parameters and gradients are real."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from paceline.devices.emulated import Pace, Profiled
from paceline.errors import SpecError
from paceline.spec import RunSpec
from paceline.strategies.base import Replica
from paceline.workers.timing.meter import Meter
from paceline.workers.trial import Trial
from paceline.workloads.base import BatchTensors, Workload, count_samples


@dataclass(frozen=True)
class Timing:
    """Seconds that a device takes per unit of work, in this process's time."""

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float]
    """Share of backward that is done when a gradient is ready, by name of the parameter."""

    update_seconds: float
    """Seconds of the device per update; the process itself does the update, in its own time."""

    work: Callable[[BatchTensors], int]
    """How many units of work a batch holds."""


def timing_of(pace: Pace, trial: Trial, workload: Workload, spec: RunSpec) -> Timing:
    """The device's time, in slow motion, for this workload."""
    slow_motion = spec.slow_motion
    if isinstance(pace, Profiled):
        assert pace.batch == spec.batch, "the plan refuses the profile of another batch"
        ready = {name: seconds / pace.backward_seconds for name, seconds in pace.ready_seconds.items()}
        per_sample = slow_motion / pace.batch
        return Timing(
            forward_seconds=pace.forward_seconds * per_sample,
            backward_seconds=pace.backward_seconds * per_sample,
            ready=ready,
            update_seconds=pace.update_seconds * slow_motion,
            work=count_samples,
        )
    seconds = slow_motion / pace.units_per_second
    return Timing(
        forward_seconds=seconds * trial.forward,
        backward_seconds=seconds * (1 - trial.forward),
        ready=trial.ready,
        update_seconds=0.0,  # in the rate, which is of whole steps
        work=workload.units,
    )


class EmulatedModel(nn.Module):
    """Has the parameters and buffers of a model under their names, but none of its arithmetic.

    Every gradient is zero, has its real size, and is ready when it would be on the device. If an update takes longer
    than the device's own, the next forward is shortened by the difference.
    """

    def __init__(self, model: nn.Module, timing: Timing) -> None:
        super().__init__()
        self._modules, self._parameters, self._buffers = model._modules, model._parameters, model._buffers
        self._timing = timing
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        missing = [name for name in trained if name not in timing.ready]
        if missing:
            raise SpecError(f"It is unknown when the gradient of {missing[0]} is ready: profile this workload.")
        # In forward the parameter whose gradient is ready last comes first, so that backward meets it last.
        self._order = sorted(((timing.ready[name], p) for name, p in trained.items()), key=lambda entry: -entry[0])
        self._asked_seconds = 0.0  # of the device, for all that was asked of it, updates aside
        self._backward = _Backward()
        self._update_begun = self._updated = 0.0
        register_optimizer_step_pre_hook(lambda *_: self._begin_update())
        register_optimizer_step_post_hook(lambda *_: self._end_update())

    def forward(self, tensors: BatchTensors) -> Tensor:
        """A loss of 0 that depends on every trained parameter."""
        begun, work = time.perf_counter(), self._timing.work(tensors)
        self._asked_seconds += work * (self._timing.forward_seconds + self._timing.backward_seconds)
        self._backward.begun = None
        signal = torch.zeros(())
        for share, parameter in self._order:
            signal = _Influence.apply(signal, parameter, share * work * self._timing.backward_seconds, self._backward)  # type: ignore[no-untyped-call]
        _sleep_until(begun + work * self._timing.forward_seconds - self._overtime())
        return signal

    def seconds_per_step(self, steps: int) -> float:
        """Mean seconds of a step on the device over `steps` steps, in this process's time."""
        return self._asked_seconds / steps + self._timing.update_seconds

    def _overtime(self) -> float:
        updated, self._updated = self._updated, 0.0
        return updated - self._timing.update_seconds if updated else 0.0

    def _begin_update(self) -> None:
        self._update_begun = time.perf_counter()

    def _end_update(self) -> None:
        self._updated += time.perf_counter() - self._update_begun


class MeteredReplica:
    """A replica that measures how busy the host's cores are during its exchange; emulated compute leaves them idle."""

    def __init__(self, replica: Replica, meter: Meter) -> None:
        self._replica = replica
        self.meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replica, name)

    def exchange(self, samples: int) -> None:
        """Exchange as the replica does, and measure the cores meanwhile."""
        self.meter.resume()
        self._replica.exchange(samples)
        self.meter.pause()


class IdleSGD(torch.optim.SGD):
    """An optimizer that does nothing: gradients are zero, and the device's time includes the update.

    Gradients are cleared only the first time, because their memory before training is not the memory they keep.
    """

    _cleared = False

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change no weight."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients the first time; later do nothing."""
        if not self._cleared:
            super().zero_grad(set_to_none)
            self._cleared = True


class _Backward:
    """The time when backward began; None before."""

    begun: float | None = None


class _Influence(torch.autograd.Function):
    """Passes a signal on; in backward it waits until this parameter's gradient is ready."""

    @staticmethod
    def forward(ctx: Any, signal: Tensor, parameter: Tensor, ready_seconds: float, backward: _Backward) -> Tensor:
        ctx.ready_seconds, ctx.backward, ctx.parameter = ready_seconds, backward, parameter
        return signal.clone()

    @staticmethod
    def backward(ctx: Any, passed: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.backward.begun is None:
            ctx.backward.begun = time.perf_counter()
        _sleep_until(ctx.backward.begun + ctx.ready_seconds)
        return passed, _nothing_for(ctx.parameter), None, None


def _nothing_for(parameter: Tensor) -> Tensor:
    """A gradient of zeros: dense the first time, later sparse and empty, so that adding it touches no memory."""
    if parameter.grad is None:
        return torch.zeros((), dtype=parameter.dtype).expand(parameter.shape)
    return torch.zeros(parameter.shape, dtype=parameter.dtype, layout=torch.sparse_coo)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
