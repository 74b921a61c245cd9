"""Feeds end to end: what they give, who makes it, and that nothing stays behind."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import psutil
import pytest
import torch
from torch import Tensor

from paceline.errors import DataError, RunError, SpecError
from paceline.feeds import catalogue
from paceline.feeds.base import Batch, Feed, FeedContext
from paceline.feeds.prefetch import prefetching
from paceline.workloads.base import Examples, Tensors

CPU = torch.device("cpu")
Indices = npt.NDArray[np.int64]


def context(rank: int = 0, size: int = 1, batch: int = 8, seed: int = 3) -> FeedContext:
    return FeedContext(rank=rank, size=size, batch=batch, seed=seed, device=CPU)


def numbered(samples: int = 103) -> Tensors:
    return Tensors(torch.arange(samples), torch.rand(samples, 3, generator=torch.Generator().manual_seed(1)))


class WhoMadeIt:
    """Examples that tell the process they were fetched in."""

    def __len__(self) -> int:
        return 64

    def batch(self, indices: Indices) -> tuple[Tensor, ...]:
        return torch.from_numpy(indices), torch.full((len(indices),), os.getpid())


class Unreadable:
    """Examples whose sample 0 cannot be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __len__(self) -> int:
        return 64

    def batch(self, indices: Indices) -> tuple[Tensor, ...]:
        if 0 in indices:
            raise self.error
        return (torch.from_numpy(indices),)


def loaders() -> list[psutil.Process]:
    """Loader processes, by the name that torch gives them; other tests' processes may be about."""
    everyone = psutil.Process().children(recursive=True)
    return [p for p in everyone if p.status() != psutil.STATUS_ZOMBIE and p.name() == "pt_data_worker"]


def prefetchers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("paceline-")]


def wait_until(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


@pytest.fixture(autouse=True)
def _nothing_stays_behind() -> Iterator[None]:
    processes = set(loaders())
    yield
    assert set(loaders()) <= processes
    assert prefetchers() == []


def take(feed: Feed, count: int, first_step: int = 0) -> list[Batch]:
    try:
        return list(itertools.islice(feed.batches(first_step), count))
    finally:
        feed.close()


def build(text: str, where: FeedContext | None = None, examples: Examples | None = None) -> Feed:
    return catalogue.build(text, numbered() if examples is None else examples, where or context())


def assert_same(ours: list[Batch], others: list[Batch]) -> None:
    assert len(ours) == len(others)
    for a, b in zip(ours, others, strict=True):
        assert (a.samples, a.global_samples) == (b.samples, b.global_samples)
        assert all(torch.equal(x, y) and x.dtype == y.dtype for x, y in zip(a.tensors, b.tensors, strict=True))


def differ(a: Batch, b: Batch) -> bool:
    return any(not torch.equal(x, y) for x, y in zip(a.tensors, b.tensors, strict=True))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("dataset", "dataset"),
        ("dataset:shard=on,prefetch=0", "dataset"),
        ("dataset:prefetch=2,shard=off", "dataset:shard=off,prefetch=2"),
        ("synthetic:at=device", "synthetic"),
        ("synthetic:at=host,prefetch=1", "synthetic:at=host,prefetch=1"),
        ("synthetic:loaders=2,at=python", "synthetic:at=python,loaders=2"),
    ],
)
def test_a_feed_is_written_in_one_way(text: str, normal: str) -> None:
    assert catalogue.check(text) == normal


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datset", "Did you mean 'dataset'"),
        ("dataset:shards=on", "Did you mean 'shard'"),
        ("dataset:shard=yes", "on, off"),
        ("dataset:prefetch=-1", "prefetch=-1 is not valid"),
        ("dataset:loaders=-2", "loaders=-2 is not valid"),
        ("synthetic:at=gpu", "device, host, python"),
        ("synthetic:at=python,prefetch=-1", "prefetch=-1 is not valid"),
        ("synthetic:prefetch=2", "cannot be combined with prefetch=2.*on the device already.*at=host"),
        ("synthetic:at=device,loaders=1", "cannot be combined with loaders=1.*at=python"),
        ("synthetic:at=host,loaders=2", "cannot be combined with loaders=2.*at=python"),
    ],
)
def test_a_feed_that_cannot_exist_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        catalogue.check(text)
    with pytest.raises(SpecError, match=message):
        build(text)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_epoch_of_all_workers_holds_every_sample_with_its_own_values(size: int) -> None:
    examples = numbered()
    feeds = [build("dataset", context(rank, size), examples) for rank in range(size)]
    steps = feeds[0].steps_per_epoch
    assert steps is not None
    seen: list[int] = []
    for feed in feeds:
        for batch in take(feed, steps):
            assert batch.samples == len(batch.tensors[0])
            assert torch.equal(batch.tensors[1], examples.tensors[1][batch.tensors[0]])
            seen += batch.tensors[0].tolist()
    assert sorted(seen) == list(range(103))


@pytest.mark.parametrize("text", ["dataset", "dataset:shard=off"])
def test_resuming_at_a_step_gives_the_batches_of_a_run_from_the_start(text: str) -> None:
    whole = take(build(text, context(1, 3)), 14)
    for step in (1, 4, 5, 9):
        assert_same(take(build(text, context(1, 3)), 14 - step, first_step=step), whole[step:])


@pytest.mark.parametrize("batch", [1, 16])
def test_an_empty_worker_gets_a_stand_in_of_two_samples_that_counts_nothing(batch: int) -> None:
    # The last global batch has one sample, for rank 0.
    feeds = [build("dataset", context(rank, 2, batch), numbered(2 * batch + 1)) for rank in range(2)]
    first, empty = (take(feed, 1, first_step=1)[0] for feed in feeds)
    assert (first.samples, first.global_samples, len(first.tensors[0])) == (1, 1, 1)
    assert (empty.samples, empty.global_samples, len(empty.tensors[0])) == (0, 1, 2)
    assert empty.tensors[1].shape == (2, 3)


def test_without_sharding_all_workers_samples_add_up() -> None:
    batches = take(build("dataset:shard=off", context(2, 4)), 13)
    assert [b.samples for b in batches] == [8] * 12 + [7]
    assert [b.global_samples for b in batches] == [32] * 12 + [28]


@pytest.mark.parametrize("text", ["dataset", "dataset:shard=off"])
@pytest.mark.parametrize("ahead", ["loaders=2", "prefetch=2", "loaders=2,prefetch=2"])
def test_loaders_and_prefetching_do_not_change_the_batches(text: str, ahead: str) -> None:
    plain = take(build(text, context(1, 2)), 12, first_step=3)
    assert_same(take(build(f"{text}{',' if ':' in text else ':'}{ahead}", context(1, 2)), 12, first_step=3), plain)


@pytest.mark.parametrize("text", ["dataset:loaders=2,prefetch=2", "synthetic:at=host", "synthetic:at=python"])
def test_a_feed_leaves_the_workers_random_state_alone(text: str) -> None:
    before = torch.get_rng_state(), repr(np.random.get_state())
    take(build(text), 3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert repr(np.random.get_state()) == before[1]


def test_loaders_make_batches_in_so_many_other_processes_in_turn() -> None:
    makers = [int(b.tensors[1][0]) for b in take(build("dataset:loaders=2", examples=WhoMadeIt()), 8)]
    assert os.getpid() not in makers
    assert len(set(makers)) == 2
    assert {int(b.tensors[1][0]) for b in take(build("dataset:prefetch=2", examples=WhoMadeIt()), 8)} == {os.getpid()}


@pytest.mark.parametrize("text", ["dataset", "dataset:loaders=2", "dataset:prefetch=2", "dataset:loaders=1,prefetch=2"])
def test_an_error_while_making_a_batch_reaches_the_consumer_after_the_batches_before_it(text: str) -> None:
    good = take(build("dataset", examples=WhoMadeIt()), 8)
    before = next(i for i, b in enumerate(good) if 0 in b.tensors[0])
    stream = build(text, examples=Unreadable(ValueError("sample 0 is torn"))).batches(0)
    assert [next(stream).tensors[0].tolist() for _ in range(before)] == [b.tensors[0].tolist() for b in good[:before]]
    with pytest.raises(ValueError, match="sample 0 is torn"):
        next(stream)
    assert loaders() == [] == prefetchers()  # although the error and its traceback are still held
    with pytest.raises(StopIteration):
        next(stream)


def test_an_error_of_ours_crosses_from_a_loader_in_its_own_words() -> None:
    feed = build("dataset:loaders=1", examples=Unreadable(DataError("frame 0 is missing: fetch it again.")))
    with pytest.raises(DataError) as caught:
        take(feed, 8)
    assert str(caught.value) == "frame 0 is missing: fetch it again."


def structured() -> Tensors:
    """Floats with a range, a padded sentence and its length: the length must keep belonging to the sentence."""
    lengths = torch.arange(40) % 5 + 1
    words = torch.where(torch.arange(5) < lengths[:, None], torch.arange(1, 201).reshape(40, 5), 0)
    images = torch.linspace(-2.5, 0.5, 40 * 6, dtype=torch.float64).reshape(40, 2, 3)
    half = torch.linspace(0.25, 1, 40, dtype=torch.bfloat16)
    endless = torch.full((40, 2), -torch.inf)
    return Tensors(images, words, lengths, words != 0, half, endless)


KINDS = ["synthetic", "synthetic:at=host", "synthetic:at=python"]


@pytest.mark.parametrize("text", KINDS)
@pytest.mark.parametrize("batch", [7, 50])
def test_synthetic_batches_have_the_shapes_types_ranges_and_structure_of_real_ones(text: str, batch: int) -> None:
    examples = structured()
    real = examples.batch(np.arange(batch) % 40)
    feed = build(text, context(1, 2, batch=batch), examples)
    assert feed.steps_per_epoch is None
    for made in take(feed, 3):
        assert (made.samples, made.global_samples) == (batch, 2 * batch)
        assert [(t.shape, t.dtype) for t in made.tensors] == [(t.shape, t.dtype) for t in real]
        images, words, lengths, mask, half, endless = made.tensors
        for drawn, like in ((images, real[0]), (half, real[4])):
            assert like.min() <= drawn.min() < drawn.max() <= like.max()
        assert images.unique().numel() == images.numel()
        assert torch.equal((words != 0).sum(1), lengths)
        assert torch.equal(words != 0, mask)
        assert sorted(words.tolist()) == sorted(real[1].tolist())
        assert endless.isfinite().all()


def test_a_device_batch_is_the_same_objects_every_time() -> None:
    first, second, third = take(build("synthetic", examples=structured()), 3)
    assert all(a is b is c for a, b, c in zip(first.tensors, second.tensors, third.tensors, strict=True))


@pytest.mark.parametrize("text", ["synthetic:at=host", "synthetic:at=python"])
def test_made_batches_differ_by_step_rank_and_seed_and_by_nothing_else(text: str) -> None:
    run = take(build(text, context(0, 2)), 4)
    assert all(differ(a, b) for a, b in itertools.combinations(run, 2))
    assert differ(run[0], take(build(text, context(1, 2)), 1)[0])
    assert differ(run[0], take(build(text, context(0, 2, seed=4)), 1)[0])
    assert_same(take(build(text, context(0, 2)), 2, first_step=2), run[2:])
    assert_same(take(build(f"{text},prefetch=2", context(0, 2)), 4), run)


def test_python_batches_are_made_by_another_process_and_host_batches_by_none() -> None:
    for text, processes in (("synthetic:at=host", 0), ("synthetic:at=python", 1), ("synthetic:at=python,loaders=2", 2)):
        feed = build(text)
        stream = feed.batches(0)
        batch = next(stream)
        assert len(loaders()) == processes
        assert all(t.is_shared() == (processes > 0) for t in batch.tensors)
        feed.close()


def test_python_batches_do_not_depend_on_the_number_of_loaders() -> None:
    assert_same(take(build("synthetic:at=python,loaders=2"), 6), take(build("synthetic:at=python"), 6))


def test_a_synthetic_feed_without_an_example_is_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        build("synthetic", examples=numbered(0))


def counted(made: list[int], stop: int | None = None) -> Iterator[Batch]:
    for i in itertools.count() if stop is None else range(stop):
        made.append(i)
        yield Batch((torch.tensor([i]),), 1, 1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_prefetching_keeps_exactly_so_many_batches_ready(count: int) -> None:
    made: list[int] = []
    with prefetching(counted(made), CPU, count) as batches:
        assert wait_until(lambda: len(made) == count, 5)
        assert [int(next(batches).tensors[0]) for _ in range(3)] == [0, 1, 2]
        assert wait_until(lambda: len(made) == count + 3, 5)
        time.sleep(0.05)
        assert len(made) == count + 3


def test_prefetching_ends_at_once_when_it_is_full() -> None:
    made: list[int] = []
    with prefetching(counted(made), CPU, 2):
        assert wait_until(lambda: len(made) == 2, 5)
        begin = time.monotonic()
    assert time.monotonic() - begin < 1
    assert prefetchers() == []


def test_prefetching_a_source_with_an_end_ends_with_it() -> None:
    with prefetching(counted([], stop=3), CPU, 2) as batches:
        assert [int(b.tensors[0]) for b in batches] == [0, 1, 2]
        assert list(batches) == []


@pytest.mark.parametrize("text", ["dataset:loaders=2", "dataset:prefetch=2", "dataset:loaders=2,prefetch=1"])
def test_close_ends_processes_and_threads_and_may_be_called_again(text: str) -> None:
    feed = build(text)
    stream = feed.batches(0)
    held = next(stream)
    processes = loaders()
    assert len(processes) == 2 * ("loaders" in text)
    assert len(prefetchers()) == ("prefetch" in text)
    feed.close()
    assert loaders() == [] == prefetchers()
    assert not [name for p in processes for name in os.listdir("/dev/shm") if f"_{p.pid}_" in name]
    feed.close()
    assert_same([held], take(build("dataset"), 1))  # what was handed out stays valid
    assert_same(take(feed, 2, first_step=1), take(build("dataset"), 2, first_step=1))  # and the feed can start again


@pytest.mark.parametrize("text", ["dataset:loaders=1,prefetch=2", "synthetic:at=python"])
def test_dropping_the_iterator_midway_ends_everything(text: str) -> None:
    feed = build(text)
    stream = feed.batches(0)
    next(stream)
    assert len(loaders()) == 1
    gc.disable()  # no cycle may be needed to be found
    try:
        del stream
        assert loaders() == [] == prefetchers()
    finally:
        gc.enable()


def kill_and_go_on(victim: int, stream: Iterator[Batch]) -> None:
    os.kill(victim, signal.SIGKILL)
    for _ in range(1000):
        next(stream)


def test_a_killed_loader_is_an_error_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # what is killed cannot remove its sockets
        monkeypatch.setattr(tempfile, "tempdir", folder)
        feed = build("dataset:loaders=2,prefetch=1", examples=WhoMadeIt())
        stream = feed.batches(0)
        victim = int(next(stream).tensors[1][0])
        # Without DataLoader's own handler, which may strike first, wherever the worker is, with a RuntimeError.
        handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            with pytest.raises(RunError, match=f"Loader process {victim} ended with exit code -9.*fewer loaders"):
                kill_and_go_on(victim, stream)
        finally:
            signal.signal(signal.SIGCHLD, handler)
        feed.close()


WORKER = """
import signal, time, torch
from paceline.feeds import catalogue
from paceline.feeds.base import FeedContext
from paceline.workloads.base import Tensors
from psutil import Process
context = FeedContext(rank=0, size=1, batch=8, seed=0, device=torch.device("cpu"))
stream = catalogue.build("dataset:loaders=2,prefetch=1", Tensors(torch.arange(64)), context).batches(0)
next(stream)
print(*(p.pid for p in Process().children()), flush=True)
time.sleep(60)
"""


def test_loaders_end_when_their_worker_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        left = [psutil.Process(int(pid)) for pid in worker.stdout.readline().split()]
        assert len(left) == 2
        worker.kill()
        # Well below the 5 s after which DataLoader itself would notice.
        assert wait_until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in left), 3)
