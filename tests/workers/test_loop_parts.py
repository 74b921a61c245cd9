"""The parts of the training loop: rates, ends, micro-batches, the clock and checkpoints."""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import CheckpointError
from paceline.feeds.base import Batch
from paceline.recipe import OptimizerRecipe
from paceline.spec import RunSpec
from paceline.strategies.base import NoEvents, Replica
from paceline.strategies.group import Group, run_in_process
from paceline.strategies.independent import IndependentStrategy
from paceline.workers import checkpoint
from paceline.workers.checkpoint import Progress
from paceline.workers.limit import Limit
from paceline.workers.loop import micro_batches
from paceline.workers.schedule import Schedule

# The learning rate


@pytest.mark.parametrize(("rule", "target"), [("none", 0.1), ("linear", 0.4), ("sqrt", 0.2)])
def test_a_rule_scales_the_rate_with_the_workers(rule: Any, target: float) -> None:
    schedule = Schedule(base=0.1, rule=rule, workers=4, warmup_steps=0)
    assert schedule.target == pytest.approx(target)
    assert [schedule.rate(step) for step in (0, 1, 1000)] == pytest.approx([target] * 3)


def test_a_warm_up_rises_evenly_from_the_unscaled_rate_to_the_target() -> None:
    schedule = Schedule(base=0.1, rule="linear", workers=5, warmup_steps=4)
    rates = [schedule.rate(step) for step in range(6)]
    assert rates == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.5, 0.5])


def test_one_worker_trains_at_the_same_rate_under_every_rule() -> None:
    for rule in ("none", "linear", "sqrt"):
        schedule = Schedule(base=0.1, rule=rule, workers=1, warmup_steps=3)
        assert [schedule.rate(step) for step in range(5)] == pytest.approx([0.1] * 5)


# The end


def train_until_the_end(
    group: Group,
    *,
    first: int = 0,
    total_steps: int | None = None,
    seconds: float | None = None,
    synchronous: bool = True,
    stop: Callable[[int, int], bool] = lambda rank, done: False,
) -> tuple[int, int]:
    """Steps of about a millisecond, slower on higher ranks; where it ended and how often the workers conferred."""
    done, conferred = first, 0
    plain_gather = group.all_gather

    def gather(tensor: torch.Tensor) -> list[torch.Tensor]:
        nonlocal conferred
        conferred += 1
        return plain_gather(tensor)

    group.all_gather = gather  # type: ignore[method-assign]
    limit = Limit(
        group,
        total_steps=total_steps,
        seconds=seconds,
        synchronous=synchronous,
        asked_to_stop=lambda: stop(group.rank, done),
    )
    limit.begin(first)
    while True:
        time.sleep(0.001 * (1 + group.rank))
        if synchronous:
            group.barrier()
        done += 1
        if limit.reached(done):
            return done, conferred


def ends(size: int, **limits: Any) -> list[tuple[int, int]]:
    results: Any = run_in_process(size, lambda group: train_until_the_end(group, **limits))
    return list(results)


@pytest.mark.parametrize("size", [1, 3])
def test_a_number_of_steps_is_kept_exactly_also_when_resumed(size: int) -> None:
    assert [done for done, _ in ends(size, total_steps=7)] == [7] * size
    assert [done for done, _ in ends(size, total_steps=7, first=5)] == [7] * size


def test_workers_that_wait_for_one_another_end_at_the_same_step_after_the_time() -> None:
    begun = time.perf_counter()
    results = ends(3, seconds=0.4)
    assert time.perf_counter() - begun >= 0.4
    assert len({done for done, _ in results}) == 1
    assert results[0][0] > 10


def test_workers_confer_about_twice_a_second_and_not_at_every_step() -> None:
    for done, conferred in ends(2, seconds=0.7):
        assert conferred <= 12 < done


def test_a_wish_to_stop_ends_all_at_the_same_step() -> None:
    results = ends(3, total_steps=100_000, stop=lambda rank, done: rank == 0 and done >= 5)
    (last,) = {done for done, _ in results}
    assert 5 <= last < 100_000


def test_workers_that_do_not_wait_for_one_another_decide_alone_and_never_confer() -> None:
    results = ends(3, synchronous=False, stop=lambda rank, done: done >= 5 * (rank + 1))
    assert results == [(5, 0), (10, 0), (15, 0)]


def test_time_counts_from_the_first_step_and_not_from_start_up() -> None:
    def work(group: Group) -> bool:
        limit = Limit(group, total_steps=None, seconds=0.2, synchronous=True, asked_to_stop=lambda: False)
        time.sleep(0.25)
        limit.begin(0)
        return limit.reached(1)

    assert run_in_process(1, work) == [False]


def test_a_worker_that_comes_first_to_the_agreement_waits_for_the_last() -> None:
    def work(group: Group) -> float:
        waits: list[float] = []
        limit = Limit(
            group,
            total_steps=None,
            seconds=60.0,
            synchronous=True,
            asked_to_stop=lambda: False,
            waited=waits.append,
        )
        limit.begin(0)
        time.sleep(0.2 * group.rank)
        assert not limit.reached(1)
        return sum(waits)

    first, last = run_in_process(2, work)
    assert isinstance(first, float)
    assert isinstance(last, float)
    assert first > last + 0.1


# Micro-batches


@pytest.mark.parametrize("samples", [1, 2, 7, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 20])
def test_micro_batches_are_the_batch_in_order_and_their_shares_add_up(samples: int, count: int) -> None:
    tensors = (torch.arange(samples), torch.arange(2.0 * samples).reshape(samples, 2))
    pieces = list(micro_batches(Batch(tensors, samples, global_samples=20), count))
    assert len(pieces) == min(count, samples)
    for index, whole in enumerate(tensors):
        assert torch.equal(torch.cat([piece[index] for piece, _, _ in pieces]), whole)
    sizes = [share.samples for _, share, _ in pieces]
    assert sizes == [len(piece[0]) for piece, _, _ in pieces]
    assert max(sizes) - min(sizes) <= 1
    assert sum(share.of_worker for _, share, _ in pieces) == pytest.approx(1)
    assert sum(share.of_all for _, share, _ in pieces) == pytest.approx(samples / 20)
    assert [final for _, _, final in pieces] == [False] * (len(pieces) - 1) + [True]


def test_a_worker_without_samples_runs_one_stand_in_that_weighs_nothing() -> None:
    stand_in = (torch.ones(1),)
    ((tensors, share, final),) = micro_batches(Batch(stand_in, samples=0, global_samples=20), 3)
    assert tensors is stand_in
    assert (share.of_worker, share.of_all, share.samples, final) == (0.0, 0.0, 0, True)


# Checkpoints

SPEC = RunSpec(workload="vae", workers=2, batch=8, lr=0.1, steps=10, strategy="independent")


def replica_of(group: Group) -> Replica:
    model = nn.Linear(2, 1)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.3)  # not drawn: threads share torch's random state
    recipe = OptimizerRecipe(factory="torch.optim:SGD", options={"lr": 0.1, "momentum": 0.9})
    return IndependentStrategy().replicate(model, recipe, group, NoEvents())


def one_step(replica: Replica, rank: int) -> None:
    replica.backward(replica.model(torch.tensor([[1.0, 2.0 + rank]])).sum())
    replica.exchange(1)
    replica.update(0.1)


def save_steps(folder: Path, *steps: int) -> list[Path]:
    """Checkpoints of two workers after these steps."""

    def work(group: Group) -> list[Path]:
        replica, saved = replica_of(group), []
        for step in steps:
            one_step(replica, group.rank)
            saved.append(checkpoint.save(folder, SPEC, Progress(step, 8 * step + group.rank), replica, group))
        return saved

    (paths, same) = run_in_process(2, work)
    assert paths == same
    return paths  # type: ignore[return-value]


def test_the_newest_checkpoint_of_a_run_is_found_and_any_by_its_own_path(tmp_path: Path) -> None:
    first, second = save_steps(tmp_path / "checkpoints", 9, 100)
    assert checkpoint.find(tmp_path) == checkpoint.find(tmp_path / "checkpoints") == second
    assert checkpoint.find(first) == first


def test_only_the_two_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2, 3, 4)
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["step-00000003", "step-00000004"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]


def test_an_unfinished_checkpoint_is_never_found(tmp_path: Path) -> None:
    (tmp_path / ".step-00000009.partial").mkdir()
    (tmp_path / ".step-00000009.partial" / "about.json").write_text("{}")
    (tmp_path / "step-00000008").mkdir()
    with pytest.raises(CheckpointError, match=r"holds no checkpoint: train with --checkpoint-every"):
        checkpoint.find(tmp_path)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint.find(tmp_path / "nowhere")


CHANGES: dict[str, Any] = {
    "workload": "nmt",
    "workers": 4,
    "strategy": "allreduce",
    "feed": "dataset:shard=off",
    "batch": 4,
    "accumulate": 2,
    "seed": 1,
    "precision": "bf16",
    "clip_norm": 1.0,
    "lr": 0.2,
    "lr_rule": "linear",
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_checkpoint_of_another_run_is_refused_with_what_differs(tmp_path: Path, name: str) -> None:
    (path,) = save_steps(tmp_path, 3)
    with pytest.raises(CheckpointError) as refused:
        checkpoint.check(path, dataclasses.replace(SPEC, **{name: CHANGES[name]}))
    assert f"{name} was {getattr(SPEC, name)!r}, now {CHANGES[name]!r}" in str(refused.value)
    assert "give the same settings" in str(refused.value)


def test_a_longer_run_on_other_devices_may_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    (path,) = save_steps(tmp_path, 3)
    other = dataclasses.replace(
        SPEC, steps=None, epochs=9, timeout=5.0, validate="off", workers_per_device=2, checkpoint_every=4
    )
    assert checkpoint.check(path, other).step == 3


NO_DESCRIPTION = ["", "{", "[]", "3", "{}", '{"step": 1}', '{"identity": {}}', '{"identity": 3, "step": 1}']


@pytest.mark.parametrize("text", [*NO_DESCRIPTION, '{"identity": {}, "step": "x"}'])
def test_a_damaged_description_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "about.json").write_text(text)
    with pytest.raises(CheckpointError, match="is not a readable checkpoint"):
        checkpoint.check(tmp_path, SPEC)


def test_a_worker_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    (path,) = save_steps(tmp_path, 1)

    def work(group: Group) -> tuple[Progress, torch.Tensor, torch.Tensor]:
        straight, resumed = replica_of(group), replica_of(group)
        one_step(straight, group.rank)
        progress = checkpoint.load(path, SPEC, resumed, group)
        for replica in (straight, resumed):
            one_step(replica, group.rank)
        end, same_end = (next(replica.model.parameters()).detach() for replica in (straight, resumed))
        return progress, end, same_end

    results: Any = run_in_process(2, work)
    for rank, (progress, straight, resumed) in enumerate(results):
        assert progress == Progress(step=1, samples_seen=8 + rank), "every worker counts its own samples"
        assert torch.equal(straight, resumed)
    assert not torch.equal(results[0][1], results[1][1]), "independent workers must have states of their own"


def test_workers_at_different_steps_save_together_and_each_keeps_its_place(tmp_path: Path) -> None:
    def work(group: Group) -> tuple[str, Progress]:
        place = Progress(step=5 + group.rank, samples_seen=40 + group.rank)
        path = checkpoint.save(tmp_path, SPEC, place, replica_of(group), group)
        return path.name, checkpoint.load(path, SPEC, replica_of(group), group)

    assert run_in_process(2, work) == [("step-00000005", Progress(5, 40)), ("step-00000005", Progress(6, 41))]


def test_a_truncated_checkpoint_is_refused_and_no_code_in_it_is_run(tmp_path: Path) -> None:
    (path,) = save_steps(tmp_path, 1)
    whole = (path / "rank-0.pt").read_bytes()
    trap = tmp_path / "trap"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (trap,))

    def load(group: Group) -> Progress:
        return checkpoint.load(path, dataclasses.replace(SPEC), replica_of(group), group)

    (path / "rank-0.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"cannot be read .*: resume from another checkpoint"):
        run_in_process(1, load)
    torch.save({"state": Evil()}, path / "rank-0.pt")
    with pytest.raises(CheckpointError, match="cannot be read"):
        run_in_process(1, load)
    assert not trap.exists()


def test_what_a_checkpoint_is_of_can_be_read_by_anyone(tmp_path: Path) -> None:
    (path,) = save_steps(tmp_path, 2)
    about = json.loads((path / "about.json").read_text())
    assert about["identity"]["workload"] == "vae"
    assert sorted(p.name for p in path.iterdir()) == ["about.json", "rank-0.pt", "rank-1.pt", "shared.pt"]
