"""The three seams held by members that are not in the catalogue: trained, counted, recorded, projected, resumed."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from known import with_known_rate
from processes import run_workers
from strategies.oracle import Case, largest_difference, oracle, train_worker
from toy_classes import SignsCodec
from toys import LowRank, Signs

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan
from paceline.errors import SpecError
from paceline.project.curve import Point
from paceline.project.questions.whatif import Measured, Question, curve
from paceline.record import Record
from paceline.spec import RunSpec
from paceline.strategies.codec import BucketViews
from paceline.strategies.group import Group
from paceline.traffic.base import BucketShape, Payload, by_pattern
from paceline.traffic.catalogue import MEMBERS, resolve

VAE = "vae:data=generated,samples=64,channels=3,hidden=8"
TOYS = {
    "a codec that only gathers, with a residual": "toys:SIGNS+allreduce",
    "the same in flat pieces": "toys:SIGNS+allreduce:packs=3",
    "a codec of two rounds": "toys:LOWRANK:rank=2+allreduce:bucket=4KB",
    "a schedule": "toys:EVERY:steps=3+allreduce",
    "all three": "toys:EVERY:steps=3+toys:LOWRANK+allreduce:packs=1",
    "a codec of one round on servers": "toys:SIGNS+ps:servers=2",
    "a cast on servers": "bf16+ps:mode=async",
}
TOYS |= {f"{name} of the catalogue": f"{name}+allreduce" for name, member in MEMBERS.items() if member.kind == "codec"}
RESUMED = [text for text in TOYS.values() if "async" not in text]
WORKERS = 2


def run(out: Path, strategy: str, **settings: Any) -> Record:
    """One small run through the real engine."""
    sharing = 1 if len(os.sched_getaffinity(0)) >= WORKERS else WORKERS
    spec = RunSpec(
        workload=VAE, workers=WORKERS, workers_per_device=sharing, strategy=strategy, batch=4, lr=1e-3, **settings
    )
    return LocalEngine().run(plan(spec), out, NoDisplay())


def saved(folder: Path) -> list[Any]:
    """What a run left: the shared state, and every worker's own."""
    (last,) = sorted((folder / "checkpoints").iterdir())[-1:]
    return [torch.load(last / name, weights_only=True) for name in ("shared.pt", "rank-0.pt", "rank-1.pt")]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


# Through the real engine


@pytest.mark.parametrize("strategy", TOYS.values(), ids=TOYS)
def test_a_member_of_ones_own_is_trained_counted_recorded_and_projected(strategy: str, tmp_path: Path) -> None:
    record = run(tmp_path, strategy, steps=None, timing="fixed:warmup=1,steps=40", validate="end")
    assert Record.load(tmp_path).spec.strategy == str(resolve(strategy)) == record.spec.strategy
    assert record.traffic.counted == record.traffic.claimed
    assert record.traffic.counted, "nothing was exchanged, so nothing was counted"
    assert not [warning for warning in record.warnings if "claims" in warning]
    losses = record.learning.loss
    known = [loss for loss in losses if loss is not None]
    assert sum(known[-5:]) < sum(known[:5])
    record = with_known_rate(record)  # a busy machine may leave it unknown, and what is projected is the exchange
    measured = Measured.of_records([record])
    two, many = curve(measured, [Point(workers=n, nodes=None, batch=4) for n in (2, 16)], Question()).points
    assert two.throughput == pytest.approx(record.throughput.value, rel=0.35)
    assert two.throughput is not None
    assert many.throughput is not None
    assert 0 < many.throughput < 8 * two.throughput * (1 + 1e-9)
    assert two.step_seconds is not None
    assert many.step_seconds is not None
    assert two.step_seconds < many.step_seconds, "an exchange with more workers is not free"


@pytest.mark.parametrize("strategy", RESUMED)
def test_a_run_with_a_member_of_ones_own_resumes_bit_identically(strategy: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"checkpoint_every": 5, "validate": "off"}
    run(tmp_path / "whole", strategy, steps=11, **settings)
    run(tmp_path / "first", strategy, steps=5, **settings)
    rest = run(tmp_path / "rest", strategy, steps=11, resume=str(tmp_path / "first"), **settings)
    assert same(saved(tmp_path / "whole"), saved(tmp_path / "rest"))
    assert rest.traffic.counted == rest.traffic.claimed


def test_residuals_are_saved_with_a_checkpoint_and_matter(tmp_path: Path) -> None:
    run(tmp_path, "toys:SIGNS+allreduce", steps=5, checkpoint_every=5, validate="off")
    residuals = [own["state"]["codec"]["0"] for own in saved(tmp_path)[1:]]
    assert all(residual.abs().max() > 0 for residual in residuals)
    assert not torch.equal(*residuals), "each worker keeps what it has not sent yet"


# What they compute


def _train_all(group: Group, cases: list[Case]) -> list[dict[str, Any]]:
    return [train_worker(group, case) for case in cases]


def test_a_full_rank_and_changes_of_every_step_are_the_plain_mean() -> None:
    workload = "vae:data=generated,samples=13,channels=2,hidden=6"
    texts = ("toys:LOWRANK:rank=4096+allreduce", "toys:EVERY:steps=1+allreduce", "toys:EVERY:steps=1+allreduce:packs=3")
    # In steps of equal batches the mean of the workers' updates is the update by the mean of their gradients.
    cases = [Case(workload, text, batch=2, steps=3) for text in texts]
    truth = oracle(cases[0], WORKERS)
    for worker in run_workers(WORKERS, _train_all, cases):
        assert [largest_difference(trained, truth) < 1e-9 for trained in worker] == [True] * len(cases)


def test_nothing_of_a_gradient_is_lost_only_sent_later() -> None:
    codec = SignsCodec(Signs())
    gradients = [torch.randn(50, generator=torch.Generator().manual_seed(step)) for step in range(6)]
    sent = [codec.decode(codec.encode(BucketViews("0", [g.clone()])), 50) for g in gradients]
    torch.testing.assert_close(sum(sent) + codec.residuals["0"], sum(gradients))


# What they claim


@pytest.mark.parametrize(("pieces", "grouping"), [(1, ""), (3, ":packs=3"), (2, ":bucket=100B")])
def test_what_a_codec_adds_to_every_bucket_is_claimed_for_every_bucket(pieces: int, grouping: str) -> None:
    payload = Payload((4000, 400), 0, shapes=((10, 100), (100,)))
    (transfer,) = resolve(f"toys:SIGNS+allreduce{grouping}").transfers(payload, 2)
    assert (transfer.pattern, transfer.payload_bytes) == ("gather", 1100 + 4 * pieces)


def test_rounds_follow_the_shapes_of_tensors() -> None:
    assert LowRank(rank=2).coded_bytes(BucketShape(4400, ((10, 4, 25), (100,)))) == (4 * (2 * 10 + 100), 4 * 2 * 100)


def test_changes_are_claimed_every_so_many_steps_and_at_every_settle() -> None:
    claims = resolve("toys:EVERY:steps=4+bf16+allreduce").transfers(Payload((400,), 8), 2)
    assert [(t.pattern, t.payload_bytes, t.per, t.every) for t in claims] == [
        ("ring", 200, "step", 4),
        ("ring", 200, "settle", 1),
        ("broadcast", 8, "settle", 1),
    ]
    assert by_pattern(claims, "step") == {"ring": 50}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("toys:LOWRANK+ps", "toys:LOWRANK takes 2 rounds, but ps supports 1: use toys:LOWRANK.allreduce"),
        ("toys:EVERY:steps=4+ps", "toys:EVERY:steps=4 lets workers update by themselves, but with ps only servers"),
        ("toys:EVERY+allreduce:overlap=on", "allreduce:overlap=on cannot be combined with toys:EVERY.*Leave it out"),
        ("toys:EVERY", "toys:EVERY has no transport: write toys:EVERY.allreduce"),
        ("toys:LOWRANK:rank=0+allreduce", "rank=0 must be at least 1"),
        ("toys:LOWRANK:ranks=2+allreduce", "Did you mean 'rank'"),
    ],
)
def test_combinations_without_a_meaning_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(text)


def test_a_schedule_waits_for_others_at_times_but_not_in_every_step() -> None:
    strategy = resolve("toys:EVERY:steps=4+allreduce")
    assert (strategy.synchronous, strategy.same_steps, strategy.overlaps, strategy.every) == (False, True, False, 4)
    assert math.isclose(strategy.transfers(Payload((400,), 0), 2)[0].sent_bytes(2), 100)
