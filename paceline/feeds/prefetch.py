"""Prefetching: loader processes make batches, and a thread keeps them ready on the device."""

import contextlib
import itertools
import multiprocessing
import queue
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import connection
from typing import NoReturn, TypeAlias

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from paceline.errors import PacelineError, RunError
from paceline.feeds.base import Batch

Maker: TypeAlias = Callable[[int], Batch]
"""Makes the batch of any step, on the host, in any process."""


class SteppedFeed:
    """A feed that can make the batch of any step; loaders and prefetching do not change its content."""

    def __init__(
        self, make: Maker, *, steps_per_epoch: int | None, device: torch.device, loaders: int = 0, prefetch: int = 0
    ) -> None:
        self._make = make
        self._steps_per_epoch = steps_per_epoch
        self._device = device
        self._loaders = loaders
        self._prefetch = prefetch
        # Weak: an iterator that the consumer drops ends its threads and processes at once.
        self._streams: weakref.WeakSet[Generator[Batch, None, None]] = weakref.WeakSet()

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates in one pass over the data; None if endless."""
        return self._steps_per_epoch

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Batches from this step on; background work starts with the first request."""
        stream = self._stream(first_step)
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        """End background threads and processes."""
        for stream in list(self._streams):
            stream.close()

    def _stream(self, first_step: int) -> Generator[Batch, None, None]:
        with ExitStack() as stack:  # leaves in reverse: the thread has ended before the loaders it reads from do
            made: Iterator[Batch] = map(self._make, itertools.count(first_step))
            if self._loaders:  # forked here, in the consumer's thread, not at an unknown moment in the prefetching one
                made = stack.enter_context(loading(self._make, first_step, self._loaders))
            if self._prefetch:
                made = stack.enter_context(prefetching(made, self._device, self._prefetch))
            for batch in made:
                yield batch.to(self._device)


@contextmanager
def prefetching(source: Iterator[Batch], device: torch.device, count: int) -> Iterator[Iterator[Batch]]:
    """Keep `count` batches of `source` ready on the device, in order, by a thread; the consumer raises its errors."""
    ready: queue.SimpleQueue[_Sent | BaseException | None] = queue.SimpleQueue()
    free = threading.Semaphore(count - 1)  # the batch being made has its place already
    stopped = threading.Event()
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def fill() -> None:
        try:
            for batch in source:
                ready.put(_send(batch, device, stream))
                free.acquire()
                if stopped.is_set():
                    return
            ready.put(None)
        except BaseException as error:
            ready.put(error)

    def take() -> Iterator[Batch]:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                try:
                    raise item
                finally:
                    del item  # or the error would hold this frame, and this frame the error
            free.release()
            yield _receive(item, device)

    thread = threading.Thread(target=fill, name="paceline-prefetch", daemon=True)
    thread.start()
    try:
        yield take()
    finally:
        stopped.set()
        free.release()
        thread.join()


@dataclass(frozen=True)
class _Sent:
    batch: Batch
    copied: torch.cuda.Event | None = None


def _send(batch: Batch, device: torch.device, stream: torch.cuda.Stream | None) -> _Sent:
    if stream is None:
        return _Sent(batch.to(device))
    # Not run on a GPU: written from CUDA's rules, waiting for a machine that has one.
    with torch.cuda.stream(stream):
        tensors = tuple(t.pin_memory().to(device, non_blocking=True) for t in batch.tensors)
        return _Sent(replace(batch, tensors=tensors), stream.record_event())


def _receive(sent: _Sent, device: torch.device) -> Batch:
    if sent.copied is not None:  # not run on a GPU, as above
        consumer = torch.cuda.current_stream(device)
        consumer.wait_event(sent.copied)
        for tensor in sent.batch.tensors:
            tensor.record_stream(consumer)  # its memory is not given away while the consumer's stream needs it
    return sent.batch


@contextmanager
def loading(make: Maker, first_step: int, processes: int) -> Iterator[Iterator[Batch]]:
    """Batches from `first_step` on, in order, made by this many processes with one thread each."""
    # The loader would draw its seed from torch's random state: dropout must not depend on who makes the batches.
    seeds = torch.Generator().manual_seed((torch.initial_seed() + first_step) % 2**63)
    with warnings.catch_warnings():
        # A device is one core by default, and its loaders share it: the record shows this, not a warning.
        warnings.filterwarnings("ignore", message=".*suggested max number of worker")
        loader = DataLoader(
            _Steps(make),
            batch_size=None,
            sampler=itertools.count(first_step),
            num_workers=processes,
            worker_init_fn=_prepare_loader,
            generator=seeds,
            # Forked loaders share the examples' memory and need nothing pickled; elsewhere forking is not safe.
            multiprocessing_context="fork" if sys.platform == "linux" else None,
        )
    made = iter(loader)
    assert isinstance(made, _MultiProcessingDataLoaderIter)
    try:
        yield _given(made)
    finally:
        # Dropping the iterator would do, were it not for tracebacks that hold it; nothing public ends it at once.
        made._shutdown_workers()


_Made: TypeAlias = Batch | PacelineError


class _Steps(Dataset[_Made]):
    """Batches addressed by step, as DataLoader wants them."""

    def __init__(self, make: Maker) -> None:
        self._make = make

    def __getitem__(self, step: int) -> _Made:
        # An error of ours travels as a value: DataLoader would wrap its one line for the user in a traceback.
        try:
            return self._make(step)
        except PacelineError as error:
            return error


def _given(made: _MultiProcessingDataLoaderIter) -> Iterator[Batch]:
    while True:
        try:
            item: _Made = next(made)
        except (RuntimeError, OSError, EOFError) as error:
            # A loader that dies shows as whatever was being read from it; any other error is the examples' own.
            if ended := _ended_loaders(made):
                raise RunError(f"{ended}. If memory ran out, use fewer loaders or loaders=0.") from error
            raise
        if isinstance(item, PacelineError):
            raise item
        yield item


def _ended_loaders(made: _MultiProcessingDataLoaderIter) -> str:
    loaders = made._workers
    ending = connection.wait([loader.sentinel for loader in loaders], timeout=0.5)  # its end follows within moments
    ended = [loader for loader in loaders if loader.sentinel in ending]
    for loader in ended:
        loader.join(timeout=5)
    return ", ".join(f"Loader process {loader.pid} ended with exit code {loader.exitcode}" for loader in ended)


def _prepare_loader(_: int) -> None:
    """Make a loader end only when its worker ends, without leaving temporary files."""
    parent = multiprocessing.parent_process()
    main = threading.main_thread().ident
    assert parent is not None
    assert main is not None

    def leave(number: int, _: object) -> NoReturn:
        sys.exit(128 + number)

    def follow() -> None:
        parent.join()
        with contextlib.suppress(ProcessLookupError):
            signal.pthread_kill(main, signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to answer; it may still need batches
    signal.signal(signal.SIGTERM, leave)
    # A loader holds copies of its worker's sockets: while it lives, peers do not notice that the worker was killed.
    threading.Thread(target=follow, name="paceline-follow-worker", daemon=True).start()
