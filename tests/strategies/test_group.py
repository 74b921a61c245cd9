"""A process group, seen from the process that holds it: what its threads still hold when a collective is done."""

import time
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from paceline.strategies.group import TorchGroup


@pytest.fixture
def group() -> Iterator[TorchGroup]:
    store = HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    process_group = dist.group.WORLD
    assert process_group is not None
    yield TorchGroup(process_group, store, local_rank=0)
    dist.destroy_process_group()


def test_quiesce_waits_for_whatever_still_holds_a_tensor(group: TorchGroup) -> None:
    work = group.all_reduce(torch.ones(3))
    work.wait()
    begun = time.monotonic()
    group.quiesce(timeout_seconds=0.2)  # the work itself holds the tensor, as a thread that is late would
    assert time.monotonic() - begun >= 0.2
    del work
    group.quiesce(timeout_seconds=10)
    assert time.monotonic() - begun < 5


def test_collectives_work_on_the_tensors_they_were_given(group: TorchGroup) -> None:
    value = torch.arange(3.0)
    group.all_reduce(value).wait()
    group.broadcast(value)
    (gathered,) = group.all_gather(value)
    assert gathered.tolist() == value.tolist() == [0.0, 1.0, 2.0]
    ended: list[bool] = []
    (later,) = group.all_gather_async(value, then=lambda: ended.append(True)).wait()
    assert later.tolist() == value.tolist()
    assert group.tally == {"ring": 12, "broadcast": 12, "gather": 12}, (
        "what a few numbers are gathered for is no traffic"
    )
    group.quiesce()
    assert ended == [True]
