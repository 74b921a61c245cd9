"""Every synchronous strategy ends at the weights of the oracle, whatever its options, workload and workers."""

import dataclasses
import functools
from dataclasses import replace
from typing import Any

import pytest
from processes import run_workers
from strategies.oracle import Case, large_batch, largest_difference, oracle, prepare, train_worker, weights_of

from paceline.errors import SpecError
from paceline.strategies.group import Group
from paceline.traffic.catalogue import MEMBERS, resolve

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

# Every option of every member of the catalogue, with values that change what it does. Members are added where they
# can be: codecs to both transports. Options of which nothing can be tried here are given what can.
TRIED: dict[str, dict[str, tuple[str, ...]]] = {
    "independent": {},
    "bf16": {},
    "fp16": {},
    "allreduce": {
        "bucket": ("bucket=1KB", "overlap=off,bucket=1KB"),
        "packs": ("packs=1", "packs=4", "reduce=sum,packs=3"),
        "small": ("small=200B", "small=200B,overlap=off"),
        "overlap": ("overlap=off", "overlap=on"),
        "reduce": ("reduce=sum", "reduce=mean"),
    },
    "ps": {
        "servers": ("servers=2", "servers=3"),
        "mode": ("mode=sync", "mode=async", "mode=stale"),
        "bound": ("mode=stale,bound=0", "mode=stale,bound=2"),
        "place": ("place=own", "place=shared"),
        "device": ("device=cpu",),
    },
}
EVERYTHING = tuple(
    dict.fromkeys(
        f"{name}:{options}" if options else name
        for name, tried in TRIED.items()
        if MEMBERS[name].kind != "codec"
        for options in ("", *(text for texts in tried.values() for text in texts))
    )
)


def _combines(text: str) -> bool:
    try:
        resolve(text)
    except SpecError:
        return False
    return True


CODED = tuple(
    text
    for what in MEMBERS
    if MEMBERS[what].kind == "codec"
    for text in (f"{what}+allreduce", f"{what}+ps:servers=2")
    if _combines(text)
)
TOGETHER = tuple(text for text in EVERYTHING if resolve(text).synchronous)
APART = tuple(text for text in EVERYTHING if not resolve(text).synchronous)


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
def _options_trained(size: int, strategies: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    cases = [Case(WORKLOADS["vae"], strategy, steps=20) for strategy in strategies]
    results = run_workers(size, _train_all, cases, seconds=110)
    return {strategy: [worker[i] for worker in results] for i, strategy in enumerate(strategies)}


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
@pytest.mark.parametrize("strategy", TOGETHER)
def test_every_option_agrees_with_the_oracle(strategy: str, size: int) -> None:
    truth = _truth(Case(WORKLOADS["vae"], "reduce=sum" if "sum" in strategy else "any", steps=20), size)
    for trained in _options_trained(size, TOGETHER)[strategy]:
        assert largest_difference(trained, truth) < EXACT


@pytest.mark.parametrize("strategy", APART)
def test_one_worker_agrees_with_the_oracle_whomever_it_would_not_wait_for(strategy: str) -> None:
    truth = _truth(Case(WORKLOADS["vae"], "any", steps=20), 1)
    (trained,) = _options_trained(1, APART)[strategy]
    assert largest_difference(trained, truth) < EXACT


def test_the_suite_tries_every_option_of_every_member() -> None:
    offered = {name: {field.name for field in dataclasses.fields(m.claim)} for name, m in MEMBERS.items()}
    assert {name: set(tried) for name, tried in TRIED.items()} == offered
    for name, tried in TRIED.items():
        for option, texts in tried.items():
            assert texts, f"{name}:{option} is not tried"
            assert all(f"{option}=" in text for text in texts), f"{name}:{option} is not tried by {texts}"


def test_the_suite_tries_every_member_of_its_kind() -> None:
    transports = {name for name, member in MEMBERS.items() if member.kind == "transport"}
    assert {resolve(text).chosen[-1].name for text in CODED} == transports
    assert {text.partition("+")[0] for text in CODED} == set(ERROR_OF_CODEC)


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


ERROR_OF_CODEC = {"bf16": 2**-8, "fp16": 2**-11}
"""Relative, of one element that is coded once."""


@functools.cache
def _coded_trained() -> dict[str, list[dict[str, Any]]]:
    cases = [Case(WORKLOADS["vae"], strategy, steps=1, lr=1e-3) for strategy in CODED]
    results = run_workers(2, _train_all, cases)
    return {strategy: [worker[i] for worker in results] for i, strategy in enumerate(CODED)}


@pytest.mark.parametrize("strategy", CODED)
def test_a_codec_rounds_gradients_and_nothing_else(strategy: str) -> None:
    case = Case(WORKLOADS["vae"], strategy, steps=1, lr=1e-3)
    first, second = _coded_trained()[strategy]
    assert largest_difference(first, second) == 0.0
    exact, start = oracle(case, 2), weights_of(prepare(case)[2])
    error = ERROR_OF_CODEC[strategy.partition("+")[0]]
    for name in exact:
        step = abs(exact[name] - start[name]).max()
        # each worker rounds once on the way out, and a sum on the way once more
        assert abs(first[name] - exact[name]).max() <= 3 * error * step + 1e-9, name
    assert largest_difference(first, exact) > 1e-12, "nothing was rounded, so nothing was coded"
