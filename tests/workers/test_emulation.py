"""Emulated devices: time from figures, everything else real."""

import time
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from paceline.devices.emulated import Profiled, Rate
from paceline.recipe import OptimizerRecipe
from paceline.spec import RunSpec
from paceline.workers.emulation import EmulatedModel, Timing, timing_of
from paceline.workers.trial import Trial, freeze, try_out
from paceline.workloads.base import BatchTensors, Data, Tensors, Workload, count_samples
from paceline.workloads.sized import SizedModel

CPU = torch.device("cpu")


class Net(nn.Module):
    """Two layers in use, of 8·4 and 4·2 products a sample, and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 4, bias=False)
        self.second = nn.Linear(4, 2, bias=False)
        self.idle = nn.Linear(2, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out


def workload() -> Workload:
    return Workload(
        name="net",
        unit="rows",
        model=Net,
        loss=lambda model, tensors: model(*tensors).mean(),
        data=lambda: Data(train=Tensors(torch.ones(4, 8)), source="ones"),
        optimizer=OptimizerRecipe(factory="torch.optim:SGD", options={"lr": 0.1}),
        batch=4,
    )


def tried(*, count: bool = True) -> tuple[Net, Trial]:
    model = Net()
    return model, try_out(model, workload(), workload().data(), CPU, count=count)


def test_a_step_divides_by_the_arithmetic_of_the_model() -> None:
    model, trial = tried()
    # Products of two samples: forward 64 + 16; backward 16 for the second weight, 16 through it, 64 for the first.
    assert trial.forward == pytest.approx(80 / 176)
    assert trial.ready == pytest.approx({"second.weight": 16 / 96, "first.weight": 1.0}, abs=0.17)
    assert trial.ready["second.weight"] < trial.ready["first.weight"] == 1.0
    assert trial.unreached == ["idle.weight"]
    assert all(p.grad is None for p in model.parameters())


def test_where_there_is_no_arithmetic_every_gradient_takes_as_long() -> None:
    model = SizedModel(1000, 4)
    sized = Workload(
        name="sized",
        unit="rows",
        model=lambda: model,
        loss=lambda model, tensors: model(*tensors),
        data=workload().data,
        optimizer=workload().optimizer,
        batch=4,
    )
    trial = try_out(model, sized, sized.data(), CPU, count=True)
    assert sorted(trial.ready.values()) == [0.25, 0.5, 0.75, 1.0]
    assert trial.forward == pytest.approx(1 / 3)


@pytest.mark.parametrize(("parameters", "tensors"), [(8_885_822, 102), (42_567_050, 418), (10, 10), (7, 1)])
def test_a_stand_in_has_exactly_the_asked_size(parameters: int, tensors: int) -> None:
    sizes = [p.numel() for p in SizedModel(parameters, tensors).parameters()]
    assert (sum(sizes), len(sizes)) == (parameters, tensors)
    assert min(sizes) >= 1
    assert sizes == sorted(sizes)


def emulated(timing: Timing) -> tuple[EmulatedModel, Net]:
    model = Net()
    freeze(model, ["idle.weight"])
    return EmulatedModel(model, timing), model


TIMING = Timing(
    forward_seconds=0.02,
    backward_seconds=0.1,
    ready={"second.weight": 0.25, "first.weight": 1.0},
    update_seconds=0.0,
    work=count_samples,
)
BATCH: BatchTensors = (torch.ones(2, 8),)


def test_gradients_have_their_size_and_are_there_when_the_device_would_have_them() -> None:
    model, net = emulated(TIMING)
    ready: dict[str, float] = {}

    def note(name: str, _: Tensor) -> None:
        ready[name] = time.perf_counter()

    for name, p in net.named_parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(partial(note, name))
    begun = time.perf_counter()
    loss = model(BATCH)
    forward = time.perf_counter()
    torch.autograd.backward(loss)
    assert forward - begun >= 0.04
    assert list(ready) == ["second.weight", "first.weight"]
    assert ready["second.weight"] - forward >= 0.05
    assert ready["first.weight"] - forward >= 0.2
    assert ready["first.weight"] - ready["second.weight"] > 0.1
    assert [p.grad.shape for p in (net.first.weight, net.second.weight) if p.grad is not None] == [(4, 8), (2, 4)]
    assert dict(model.named_parameters()).keys() == dict(net.named_parameters()).keys()


def test_a_gradient_that_is_there_stays_where_it_is_and_as_it_is() -> None:
    model, net = emulated(TIMING)
    torch.autograd.backward(model(BATCH))
    for p in net.parameters():
        p.grad = torch.ones_like(p) if p.requires_grad else None
    homes = [p.grad for p in net.parameters()]
    torch.autograd.backward(model(BATCH))
    assert all(p.grad is home for p, home in zip(net.parameters(), homes, strict=True))  # strategies own the buffers
    assert net.first.weight.grad is not None
    assert net.first.weight.grad.layout == torch.strided
    assert net.first.weight.grad.eq(1).all()


def test_the_time_of_a_real_update_is_taken_off_the_next_forward() -> None:
    model, net = emulated(replace(TIMING, forward_seconds=0.25))

    class Slow(torch.optim.SGD):
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            time.sleep(0.45)

    torch.autograd.backward(model(BATCH))
    Slow(net.parameters(), lr=0.1).step()
    begun = time.perf_counter()
    model(BATCH)
    assert time.perf_counter() - begun < 0.5
    begun = time.perf_counter()
    model(BATCH)
    assert time.perf_counter() - begun >= 0.5  # nothing is owed any more
    assert model.seconds_per_step(3) == pytest.approx(0.7)


def test_slow_motion_multiplies_the_time_of_a_device() -> None:
    _, trial = tried()
    rate = Rate(device="d", units_per_second=100, batch=None, source="")
    spec = RunSpec(workload="vae", steps=1, batch=4)
    plain, slow = (
        timing_of(rate, trial, workload(), s) for s in (spec, RunSpec(workload="vae", steps=1, slow_motion=3))
    )
    assert plain.forward_seconds + plain.backward_seconds == pytest.approx(0.01)
    assert slow.forward_seconds == pytest.approx(3 * plain.forward_seconds)
    assert slow.backward_seconds == pytest.approx(3 * plain.backward_seconds)


def test_a_profile_gives_its_own_times() -> None:
    profiled = Profiled(
        device="p.json",
        batch=4,
        forward_seconds=0.4,
        backward_seconds=0.8,
        update_seconds=0.1,
        ready_seconds={"first.weight": 0.8, "second.weight": 0.2},
        source="",
    )
    _, trial = tried()
    timing = timing_of(profiled, trial, workload(), RunSpec(workload="vae", steps=1, batch=4))
    assert (timing.forward_seconds, timing.backward_seconds, timing.update_seconds) == pytest.approx((0.1, 0.2, 0.1))
    assert timing.ready == pytest.approx({"first.weight": 1.0, "second.weight": 0.25})
