"""Look at the data of workloads before a study: how much there is, and why it cannot be used. Nothing is trained."""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from paceline.engines.forking import forking_context
from paceline.errors import PacelineError
from paceline.feeds.catalogue import DatasetOptions, resolve
from paceline.feeds.order import Order
from paceline.spec import RunSpec
from paceline.workloads import catalogue

_PATIENCE_SECONDS = 120.0
"""For the data of one workload; where it takes longer, nothing is known of it before the run."""


@dataclass(frozen=True)
class DataFacts:
    """How many samples a workload has."""

    training: int
    validation: int


@dataclass(frozen=True)
class Inspection:
    """What is known of the data of some workloads."""

    facts: Mapping[str, DataFacts] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why the data of a workload cannot be used."""

    def problem(self, spec: RunSpec) -> str | None:
        """Why this run would fail for want of data; None where nothing speaks against it."""
        known = self.facts.get(spec.workload)
        _, feed = resolve(spec.feed)
        if known is None or spec.batch is None or not isinstance(feed, DatasetOptions):
            return self.problems.get(spec.workload)
        try:
            order_of(spec, known)
        except PacelineError as error:
            return str(error)
        return None


def order_of(spec: RunSpec, known: DataFacts) -> Order:
    """The order in which a run with a dataset feed uses its samples; refused where there are too few."""
    _, feed = resolve(spec.feed)
    assert isinstance(feed, DatasetOptions), "a synthetic feed has no samples of its own"
    assert spec.batch is not None, "resolved by the plan"
    return Order(samples=known.training, batch=spec.batch, rank=0, size=spec.workers, seed=spec.seed, shard=feed.shard)


def inspect(workloads: Iterable[str]) -> Inspection:
    """Read the data of each workload as a worker would, in another process; a workload that ends it is left out."""
    facts, problems = {}, {}
    for workload in dict.fromkeys(workloads):
        answer = _ask(workload)
        if answer is not None and "problem" in answer:
            problems[workload] = answer["problem"]
        elif answer is not None:
            facts[workload] = DataFacts(**answer)
    return Inspection(facts, problems)


def _ask(workload: str) -> dict[str, Any] | None:
    context = forking_context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(workload, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        with contextlib.suppress(EOFError, OSError):  # it ended without an answer
            if ours.poll(_PATIENCE_SECONDS):
                return dict(json.loads(ours.recv_bytes()))
        return None
    finally:
        process.kill()
        process.join()
        ours.close()


def _answer(workload: str, connection: "Connection[bytes, bytes]") -> None:
    """In the other process: send what is known of the data."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        data = catalogue.build(workload).data()
        validation = len(data.validation) if data.validation is not None else 0
        answer: dict[str, Any] = asdict(DataFacts(training=len(data.train), validation=validation))
    except PacelineError as error:
        answer = {"problem": str(error)}
    except Exception as error:  # the user's own code may raise anything
        answer = {"problem": f"The data of {workload} cannot be read: {type(error).__name__}: {error}"}
    connection.send_bytes(json.dumps(answer).encode())
