"""Every synchronous strategy ends at the weights of the oracle, whatever its options, workload and workers."""

import functools
from dataclasses import replace
from typing import Any

import pytest
from processes import run_workers
from strategies.oracle import Case, large_batch, largest_difference, oracle, prepare, train_worker, weights_of

from paceline.strategies.group import Group

SIZES = (1, 2, 4)
EXACT = 1e-10

# Sample counts leave an uneven last batch for every size, with an empty worker among four.
WORKLOADS = {
    "vae": "vae:data=generated,samples=13,channels=2,hidden=6",
    "pilotnet": "pilotnet:data=generated,samples=13",
    "resnet18": "resnet18:image=64,classes=5,width=4,samples=13",
    "resnet50": "resnet50:image=64,classes=5,width=4,samples=26",
    "resnet101": "resnet101:image=64,classes=5,width=2,samples=26",
    "resnet152": "resnet152:image=64,classes=5,width=2,samples=26",
    "vgg16": "vgg16:image=32,classes=5,width=2,samples=13",
    "nmt stepwise bi": "nmt:cell=stepwise,direction=bi,units=6,vocabulary=20,length=5,data=generated,samples=13",
    "nmt stepwise uni": "nmt:cell=stepwise,direction=uni,units=6,vocabulary=20,length=5,data=generated,samples=13",
    "nmt fused bi": "nmt:cell=fused,direction=bi,units=6,vocabulary=20,length=5,data=generated,samples=13",
    "nmt fused uni": "nmt:cell=fused,direction=uni,units=6,vocabulary=20,length=5,data=generated,samples=13",
    "bert tied": "bert-base:layers=1,units=8,heads=2,hidden=16,vocabulary=30,length=16,samples=13",
    "bert untied": "bert-base:tied=off,layers=1,units=8,heads=2,hidden=16,vocabulary=30,length=16,samples=13",
}
# Batch statistics of few samples make deep networks chaotic: at lr 0.01 the oracle itself moves by 1e-5 when its
# initial weights change by one part in 10¹⁶. At this rate it moves by 1e-11, and by 1e-6 in training.
DEEP_BATCH, DEEP_LR = 6, 1e-6

OPTIONS = (
    "allreduce",
    "allreduce:bucket=1KB",
    "allreduce:packs=1",
    "allreduce:packs=4",
    "allreduce:small=200B",
    "allreduce:small=200B,overlap=off",
    "allreduce:overlap=off",
    "allreduce:overlap=off,bucket=1KB",
    "allreduce:reduce=sum",
    "allreduce:reduce=sum,packs=3",
    "ps",
    "ps:servers=2",
    "ps:servers=3",
)


def _case_of(workload: str, strategy: str) -> Case:
    case = Case(WORKLOADS[workload], strategy, accumulate=2, clip_norm=1.0)
    deep = workload in ("resnet50", "resnet101", "resnet152")
    return replace(case, batch=DEEP_BATCH, lr=DEEP_LR) if deep else case


def _train_all(group: Group, cases: list[Case]) -> list[dict[str, Any]]:
    return [train_worker(group, case) for case in cases]


@functools.cache
def _workloads_trained(size: int, strategy: str) -> dict[str, list[dict[str, Any]]]:
    """Every workload trained in one set of processes; the workers' weights by workload."""
    results = run_workers(size, _train_all, [_case_of(name, strategy) for name in WORKLOADS], seconds=110)
    return {name: [worker[i] for worker in results] for i, name in enumerate(WORKLOADS)}


@functools.cache
def _options_trained(size: int) -> dict[str, list[dict[str, Any]]]:
    cases = [Case(WORKLOADS["vae"], strategy, steps=20) for strategy in OPTIONS]
    results = run_workers(size, _train_all, cases, seconds=110)
    return {strategy: [worker[i] for worker in results] for i, strategy in enumerate(OPTIONS)}


@functools.cache
def _truth(case: Case, size: int) -> dict[str, Any]:
    return oracle(case, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("strategy", ["allreduce", "ps:servers=2"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_uneven_batches_accumulation_and_clipping_agree_with_the_oracle(
    workload: str, strategy: str, size: int
) -> None:
    truth = _truth(_case_of(workload, "any"), size)
    start = weights_of(prepare(_case_of(workload, "any"))[2])
    trained_by_all = _workloads_trained(size, strategy)[workload]
    assert all(largest_difference(trained, truth) < EXACT for trained in trained_by_all)
    name = next(iter(truth))
    assert abs(truth[name] - start[name]).max() > 1000 * EXACT, "nothing was trained, so nothing was compared"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("strategy", OPTIONS)
def test_every_option_agrees_with_the_oracle(strategy: str, size: int) -> None:
    truth = _truth(Case(WORKLOADS["vae"], "reduce=sum" if "sum" in strategy else "any", steps=20), size)
    for trained in _options_trained(size)[strategy]:
        assert largest_difference(trained, truth) < EXACT


def _large_batch_cases(strategy: str) -> dict[str, Case]:
    names = ("pilotnet", "nmt stepwise bi", "nmt fused bi")
    cases = {name: Case(WORKLOADS[name], strategy, steps=8) for name in names}
    cases["bert without dropout"] = Case(WORKLOADS["bert tied"] + ",dropout=0", strategy, steps=8)
    return cases


@pytest.mark.parametrize("strategy", ["allreduce", "ps"])
def test_models_without_noise_and_batch_statistics_equal_the_plain_large_batch(strategy: str) -> None:
    cases = _large_batch_cases(strategy)
    for trained, case in zip(run_workers(2, _train_all, list(cases.values()))[1], cases.values(), strict=True):
        assert largest_difference(trained, large_batch(case, 2)) < EXACT, case


@pytest.mark.parametrize(("wire", "error"), [("bf16", 2**-8), ("fp16", 2**-11)])
def test_a_narrow_wire_rounds_gradients_and_nothing_else(wire: str, error: float) -> None:
    case = Case(WORKLOADS["vae"], f"allreduce:wire={wire}", steps=1, lr=1e-3)
    first, second = run_workers(2, train_worker, case)
    assert largest_difference(first, second) == 0.0
    exact, start = oracle(case, 2), weights_of(prepare(case)[2])
    steps = {name: abs(exact[name] - start[name]).max() for name in exact}
    errors = {name: abs(first[name] - exact[name]).max() for name in exact}
    for name in exact:
        # each worker rounds once on the way out, and the sum once more
        assert errors[name] <= 3 * error * steps[name] + 1e-9, name
    assert max(errors[name] / steps[name] for name in exact if steps[name] > 0) > error / 4, "nothing was rounded"
