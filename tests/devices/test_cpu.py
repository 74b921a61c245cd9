"""Placement on cores: filled device after device, servers shared or on their own, and refusals with what would fit."""

import os

import pytest

from paceline.devices import catalogue, cpu, cuda
from paceline.devices.base import Demand, Placement, Slot, node_of
from paceline.errors import DeviceError, SpecError


def place(cores: int, workers: int, **demand: object) -> Placement:
    return cpu.place(Demand(workers=workers, **{"workers_per_device": 1, **demand}), tuple(range(cores)))  # type: ignore[arg-type]


@pytest.mark.parametrize("cores", [2, 4, 8])
def test_each_worker_gets_a_core_of_its_own(cores: int) -> None:
    placement = place(cores, workers=cores)
    assert placement.workers == tuple(Slot(f"cpu:{n}", (n,), 1) for n in range(cores))
    assert placement.devices == cores
    assert (placement.kind, placement.backend, placement.servers, placement.server_place) == ("cpu", "gloo", (), None)


@pytest.mark.parametrize(("cores", "sharing", "devices"), [(2, 4, 2), (4, 2, 4), (8, 8, 1)])
def test_workers_that_share_a_device_are_neighbours(cores: int, sharing: int, devices: int) -> None:
    placement = place(cores, workers=8, workers_per_device=sharing)
    assert [slot.cores for slot in placement.workers] == [(rank // sharing,) for rank in range(8)]
    assert placement.devices == devices


@pytest.mark.parametrize(("cores", "width", "devices"), [(2, 2, 1), (4, 2, 2), (8, 2, 4), (8, 3, 2)])
def test_a_device_of_several_cores_gives_its_worker_as_many_threads(cores: int, width: int, devices: int) -> None:
    placement = place(cores, workers=devices, cores_per_device=width)
    assert [slot.cores for slot in placement.workers] == [
        tuple(range(n * width, (n + 1) * width)) for n in range(devices)
    ]
    assert {slot.threads for slot in placement.workers} == {width}
    assert placement.workers[0].device == f"cpu:0-{width - 1}"
    assert placement.devices == devices


def test_workers_divide_the_threads_of_their_device() -> None:
    def threads(sharing: int) -> int:
        return place(4, workers=sharing, workers_per_device=sharing, cores_per_device=4).workers[0].threads

    assert [threads(1), threads(2), threads(3), threads(8)] == [4, 2, 1, 1]


def test_only_cores_that_this_process_may_use_are_used() -> None:
    placement = cpu.place(Demand(workers=2, workers_per_device=1), (3, 6))
    assert [slot.device for slot in placement.workers] == ["cpu:3", "cpu:6"]
    assert cpu.available_cores() == tuple(sorted(os.sched_getaffinity(0)))


def test_servers_take_free_devices_when_there_are_enough() -> None:
    placement = place(4, workers=2, servers=2)
    assert [slot.device for slot in placement.servers] == ["cpu:2", "cpu:3"]
    assert (placement.server_place, placement.devices) == ("own", 4)


@pytest.mark.parametrize(("cores", "workers", "servers"), [(2, 2, 1), (4, 3, 2), (2, 2, 5)])
def test_servers_share_the_workers_devices_when_too_few_are_free(cores: int, workers: int, servers: int) -> None:
    placement = place(cores, workers=workers, servers=servers)
    assert [slot.cores for slot in placement.servers] == [(n % workers,) for n in range(servers)]
    assert (placement.server_place, placement.devices) == ("shared", workers)


def test_a_place_that_was_asked_for_is_kept() -> None:
    assert place(8, workers=2, servers=1, server_place="shared").devices == 2
    own = place(8, workers=2, servers=2, server_place="own", cores_per_device=2)
    assert own.devices == 4
    assert [(slot.device, slot.threads) for slot in own.servers] == [("cpu:4-5", 2), ("cpu:6-7", 2)]


def test_servers_of_their_own_are_refused_when_no_device_is_free() -> None:
    with pytest.raises(DeviceError) as refused:
        place(4, workers=3, servers=2, server_place="own")
    assert "ps:place=own needs 2 devices beside the workers' 3, but this machine has 1 left" in str(refused.value)
    assert "fewer servers or workers, or place=shared" in str(refused.value)


@pytest.mark.parametrize(
    ("cores", "workers", "sharing", "width", "fitting"),
    [(2, 4, 1, 1, 2), (2, 8, 2, 1, 4), (4, 6, 1, 1, 2), (4, 7, 1, 1, 7), (8, 16, 1, 1, 2), (8, 4, 1, 4, 2)],
)
def test_too_many_workers_are_refused_with_the_sharing_that_would_fit(
    cores: int, workers: int, sharing: int, width: int, fitting: int
) -> None:
    with pytest.raises(DeviceError) as refused:
        place(cores, workers=workers, workers_per_device=sharing, cores_per_device=width)
    assert f"--workers {workers} with --workers-per-device {sharing} needs {workers // sharing} devices" in str(
        refused.value
    )
    assert f"this machine has {cores // width}: add --workers-per-device {fitting}" in str(refused.value)
    place(cores, workers=workers, workers_per_device=fitting, cores_per_device=width)  # and it does fit
    for less in range(1, fitting):
        assert workers % less or workers // less > cores // width, f"{less} would fit, too"


def test_a_device_larger_than_the_machine_is_refused() -> None:
    with pytest.raises(DeviceError, match="--cores-per-device 4 is more than the 2 available"):
        place(2, workers=1, cores_per_device=4)


@pytest.mark.parametrize(
    ("cores", "workers", "said"),
    [
        (2, 3, "has 2: add --workers-per-device 3, which uses 1 of them, or use 2 or 4 workers, which fill all"),
        (4, 6, "has 4: add --workers-per-device 2, which uses 3 of them, or use 4 or 8 workers, which fill all"),
    ],
)
def test_a_sharing_that_would_leave_devices_idle_is_suggested_with_what_it_leaves(
    cores: int, workers: int, said: str
) -> None:
    with pytest.raises(DeviceError, match=said):
        place(cores, workers=workers)


def test_a_device_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Demand(workers=1, workers_per_device=1)
    monkeypatch.setattr(cuda, "available_gpus", lambda: 0)
    assert catalogue.place("auto", one).kind == catalogue.place("cpu", one).kind == "cpu"
    with pytest.raises(DeviceError, match=r"--device cuda: .* no NVIDIA GPU. Use --device cpu"):
        catalogue.place("cuda", one)
    with pytest.raises(SpecError, match=r"'gpu' is not a known device.*Valid: auto, cpu, cuda"):
        catalogue.place("gpu", one)
    monkeypatch.setattr(cuda, "available_gpus", lambda: 1)
    assert catalogue.place("auto", one).kind == catalogue.place("cuda", one).kind == "cuda"
    assert catalogue.place("cpu", one).kind == "cpu"


@pytest.mark.parametrize(
    ("workers", "nodes", "expected"),
    [(6, 3, [0, 0, 1, 1, 2, 2]), (4, 3, [0, 0, 1, 2]), (8, 3, [0, 0, 0, 1, 1, 1, 2, 2]), (3, 1, [0, 0, 0])],
)
def test_nodes_have_neighbours_and_equally_many_workers_or_one_more(
    workers: int, nodes: int, expected: list[int]
) -> None:
    assert [node_of(rank, workers, nodes) for rank in range(workers)] == expected
    placement = place(2, workers, workers_per_device=workers, nodes=nodes)
    assert [slot.node for slot in placement.workers] == expected
