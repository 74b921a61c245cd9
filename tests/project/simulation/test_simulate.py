"""A simulated step: against timelines by hand, DDP's own buckets, and laws that hold for any step."""

import random
import time
from dataclasses import replace

import pytest
import torch
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size

from paceline.measure.extremes import expected_maximum
from paceline.project.simulation.grouping import Gradient, messages_of, payload_of
from paceline.project.simulation.network import (
    ADD_PASSES,
    MESSAGE_PASSES,
    TCP_PASSES,
    HostCost,
    Layout,
    LinkModel,
    SimulatedNetwork,
)
from paceline.project.simulation.profile_step import StepProfile
from paceline.project.simulation.simulate import SimulatedSetting, Step, limit_of, simulate, throughput
from paceline.traffic import catalogue
from paceline.traffic.allreduce import BUCKET_PASSES, DDP_BYTES, DDP_FIRST_BYTES

MS = 1e-3
STRATEGIES = (
    "independent",
    "allreduce",
    "allreduce:bucket=100KB",
    "bf16+allreduce",
    "allreduce:packs=3",
    "allreduce:small=50KB",
    "allreduce:overlap=off",
    "ps",
    "ps:servers=3,place=own",
    "ps:servers=2,place=shared",
    "ps:mode=async",
    "ps:mode=async,place=shared",
    "ps:mode=stale,bound=2",
    "bf16+ps:servers=2",
    "toys:SIGNS+allreduce:bucket=100KB",
    "toys:LOWRANK+allreduce:bucket=100KB",
    "toys:EVERY:steps=4+allreduce",
)


def profile(**changes: object) -> StepProfile:
    """Three gradients; the last one registered is the first one ready."""
    usual = StepProfile(
        batch=8,
        rate_per_sample=1.0,
        unit="images/s",
        input_seconds=1 * MS,
        forward_seconds=20 * MS,
        backward_seconds=30 * MS,
        update_seconds=4 * MS,
        other_seconds=0.0,
        gradients=(Gradient(6000, 30 * MS), Gradient(9000, 20 * MS), Gradient(12000, 10 * MS)),
        spread_seconds=0.0,
        error=0.01,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def setting(
    strategy: str, workers: int, per_node: int = 1, *, host: HostCost | None = None, **network: object
) -> SimulatedSetting:
    return SimulatedSetting(
        strategy=catalogue.resolve(strategy),
        layout=Layout(workers, per_node),
        network=SimulatedNetwork(**{"between": LinkModel(1e6, 1 * MS), **network}),  # type: ignore[arg-type]
        host=host or HostCost(),
    )


# By hand: two nodes of one worker, 1 MB/s, 1 ms. A ring of 2 sends each bucket's S bytes once in all, in 2 rounds:
# 2 ms of latency, then S/1e6 s. Buckets of one gradient each, ready at 10, 20 and 30 ms: 12, 9 and 6 ms of bytes.


def test_three_buckets_one_at_a_time_end_when_a_hand_says_so() -> None:
    #   first   10 + 2 → 12, + 12 → 24
    #   second  ready at 20, begins at 24, + 2 → 26, + 9 → 35
    #   third   ready at 30, begins at 35, + 2 → 37, + 6 → 43: 13 ms after backward
    step = simulate(profile(), setting("allreduce:bucket=1KB", 2, in_flight=1))
    assert step.exchange_seconds == pytest.approx(13 * MS, rel=1e-12)
    assert step.backward_seconds == 30 * MS
    assert step.seconds == pytest.approx((1 + 20 + 30 + 13 + 4) * MS, rel=1e-12)


def test_three_buckets_two_at_a_time_share_the_link_as_a_hand_says() -> None:
    #   first   flows from 12, alone until 22: 2 ms left; shared from then on: ends at 26
    #   second  flows from 22, shared until 26: 7 left; alone until 32: 1 left; shared: ends at 34
    #   third   ready at 30, flows from 32, shared until 34: 5 left; alone: ends at 39, 9 ms after backward
    step = simulate(profile(), setting("allreduce:bucket=1KB", 2, in_flight=2))
    assert step.exchange_seconds == pytest.approx(9 * MS, rel=1e-12)


def test_two_nodes_of_two_workers_by_hand() -> None:
    # A ring of 4: 6 rounds; of 4 hops 2 leave a node, so 3 ms of latency; 1.5 S bytes: 18, 13.5 and 9 ms.
    #   first   10 + 3 → 13, + 18 → 31;  second  31 + 3 + 13.5 → 47.5;  third  47.5 + 3 + 9 → 59.5: 29.5 ms exposed
    step = simulate(profile(), setting("allreduce:bucket=1KB", 4, 2, in_flight=1))
    assert step.exchange_seconds == pytest.approx(29.5 * MS, rel=1e-12)


def test_the_exchange_works_on_the_core_that_computes_by_hand() -> None:
    # 1 µs for a byte's passes, all together: 12, 9 and 6 ms of work, and 2 · 1 ms for the rounds of each. The first two
    # are done within backward, which ends at 30 + 14 + 11; the third's follows. The link is done with the first at
    # 24, the second (ready at 20 + 14) at 45, and the third (ready at 55) at 63: as is the core.
    passes = 2 * TCP_PASSES + ADD_PASSES + BUCKET_PASSES
    host = HostCost(pass_seconds_per_byte=1e-6 / passes, message_seconds=1 * MS)
    step = simulate(profile(), setting("allreduce:bucket=1KB", 2, host=host))
    assert step.backward_seconds == pytest.approx(55 * MS, rel=1e-12)
    assert step.exchange_seconds == pytest.approx(8 * MS, rel=1e-12)


def test_a_server_by_hand() -> None:
    # 27,000 bytes of each of two workers to one server of its own: its link carries 54 ms, after 1 ms; go and apply
    # take 1 ms each; 1 + 54 ms back. The update is the server's.
    step = simulate(profile(), setting("ps:place=own", 2))
    assert step.exchange_seconds == pytest.approx((55 + 2 + 55) * MS, rel=1e-12)
    assert step.update_seconds == 4 * MS


def test_a_server_on_a_workers_core_does_its_work_after_the_workers_own() -> None:
    # One node, 1 µs a byte, 27 ms a pass; a message takes m passes at either end. There: m of the worker and 2 m of
    # the server, then 2 to add. Back: 2 m of the server, m of the worker and one to put them in place.
    host = HostCost(pass_seconds_per_byte=1e-6)
    step = simulate(profile(), setting("ps:place=shared", 2, 2, host=host))
    assert step.exchange_seconds == pytest.approx((6 * MESSAGE_PASSES + 3) * 27 * MS, rel=1e-12)


def test_without_a_barrier_a_server_that_is_busy_sets_the_pace() -> None:
    host = HostCost(pass_seconds_per_byte=1e-6)
    alone, many = (simulate(profile(), setting("ps:mode=async,place=own", n, n, host=host)) for n in (1, 64))
    # Of each step a server receives, adds and sends, 27 ms a pass, and updates for 4.
    assert alone.wait_seconds == 0
    assert many.seconds == pytest.approx(64 * ((2 * MESSAGE_PASSES + 1) * 27 + 4) * MS, rel=1e-12)


def test_without_a_barrier_no_more_passes_a_link_than_it_carries() -> None:
    # One worker a node, 27 kB each way at 1 MB/s: 27 ms of the server's link for every worker, however many there are.
    few, many = (simulate(profile(), setting("ps:mode=async,place=own", n)) for n in (2, 64))
    assert few.seconds == pytest.approx((1 + 20 + 30 + 4 + 2 * 27 + 4) * MS)  # and four messages' latency
    assert many.seconds == pytest.approx(64 * 27 * MS)
    # Two servers halve it; 32 workers of a node share its own link.
    two, shared = (
        simulate(profile(), setting(f"ps:mode=async,servers=2,{place}", 64, per_node))
        for place, per_node in (("place=own", 1), ("place=own", 64 // 2))
    )
    assert two.seconds == pytest.approx(32 * 27 * MS)
    assert shared.seconds == pytest.approx(32 * 27 * MS)
    # To a server on its own node a worker needs no link.
    placed = simulate(profile(), setting("ps:mode=async,place=shared", 64))
    assert placed.seconds == pytest.approx(63 * 27 * MS)


# Members that are in no catalogue are simulated from what they claim.


def shaped() -> StepProfile:
    """The same gradients as matrices of 15 × 100, 45 × 50 and 30 × 100 elements."""
    shapes = ((15, 100), (45, 50), (30, 100))
    gradients = [replace(g, shape=shape) for g, shape in zip(profile().gradients, shapes, strict=True)]
    return profile(gradients=tuple(gradients))


def test_what_is_only_gathered_goes_round_whole() -> None:
    # One byte an element and four for the bucket, once from each of two workers: 1 ms of latency, then 3.004, 2.254 and
    # 1.504 ms of bytes. The last is ready at 30.
    step = simulate(profile(), setting("toys:SIGNS+allreduce:bucket=1KB", 2))
    assert step.exchange_seconds == pytest.approx((1 + 1.504) * MS, rel=1e-12)
    # Of four workers each hears of three others: 3 rounds.
    step = simulate(profile(), setting("toys:SIGNS+allreduce:bucket=1KB", 4))
    assert step.exchange_seconds == pytest.approx(3 * (1 + 1.504) * MS, rel=1e-12)


def test_everybodys_is_decoded_on_the_core() -> None:
    # Nothing but passes: all 27,000 bytes are cleared and added to, coded once, and decoded for each worker.
    host = HostCost(pass_seconds_per_byte=1e-6)
    costs = [
        simulate(profile(), setting("toys:SIGNS+allreduce:packs=1", n, n, host=host)).exchange_seconds for n in (2, 8)
    ]
    moved = [2 * TCP_PASSES * (n - 1) * 6754e-6 for n in (2, 8)]
    decoded = [(BUCKET_PASSES + 4 + 2 * n) * 27 * MS for n in (2, 8)]
    assert costs == pytest.approx([a + b for a, b in zip(moved, decoded, strict=True)], rel=1e-12)


def test_later_rounds_follow_after_backward_in_the_order_of_the_first() -> None:
    # Rank 1: 4 bytes a row, then 4 a column: 120 and 400, 180 and 200, 60 and 400; 2 ms of latency each.
    #   first rounds   end at 12.12, 22.18 and 32.06
    #   second rounds  32.06 + 2.4, + 2.2, + 2.4 = 39.06: 9.06 ms after backward
    step = simulate(shaped(), setting("toys:LOWRANK+allreduce:bucket=1KB", 2, in_flight=1))
    assert step.exchange_seconds == pytest.approx(9.06 * MS, rel=1e-12)


def test_a_round_needs_the_one_before_it_however_many_may_be_under_way() -> None:
    # One bucket: 360 bytes, then 1,000: 30 + 2.36 + 3 ms.
    step = simulate(shaped(), setting("toys:LOWRANK+allreduce", 2, in_flight=2))
    assert step.exchange_seconds == pytest.approx(5.36 * MS, rel=1e-12)


def test_an_agreement_of_every_four_steps_is_a_quarter_of_each() -> None:
    # 27,000 bytes after backward: 2 + 27 ms. Of four steps' deviations two are left, waited for once.
    step = simulate(profile(spread_seconds=3 * MS), setting("toys:EVERY:steps=4+allreduce", 2))
    assert step.exchange_seconds == pytest.approx(29 / 4 * MS, rel=1e-12)
    assert step.wait_seconds == pytest.approx(3 * MS / 3.14159265**0.5 / 2, rel=1e-4)


def test_what_is_pushed_to_a_server_is_coded_and_what_comes_back_is_not() -> None:
    step = simulate(profile(), setting("bf16+ps:place=own", 2))
    assert step.exchange_seconds == pytest.approx((1 + 27 + 2 + 55) * MS, rel=1e-12)
    # As above, for a server on a worker's core, in passes of 27 ms: a push of half the bytes, after one to code; two
    # workers' to decode and to add.
    host = HostCost(pass_seconds_per_byte=1e-6)
    step = simulate(profile(), setting("bf16+ps:place=shared", 2, 2, host=host))
    there, back = 1 + 3 * MESSAGE_PASSES / 2 + 2 * 2, 3 * MESSAGE_PASSES + 1
    assert step.exchange_seconds == pytest.approx((there + back) * 27 * MS, rel=1e-12)


def test_the_wait_is_for_the_slowest_of_n() -> None:
    one, two, many = (
        simulate(profile(spread_seconds=3 * MS), setting("allreduce", n)).wait_seconds for n in (1, 2, 100)
    )
    # Expected maximum of n standard normals: 1/√π for 2; 2.5076 for 100 (tables of order statistics).
    assert one == 0
    assert two == pytest.approx(3 * MS / 3.14159265**0.5, rel=1e-4)
    assert many == pytest.approx(3 * MS * 2.5076, rel=1e-3)


@pytest.mark.parametrize("workers", [2, 3, 10, 1000])
def test_the_expected_maximum_agrees_with_draws(workers: int) -> None:
    torch.manual_seed(0)
    drawn = torch.randn(4000, workers).max(dim=1).values
    assert expected_maximum(workers) == pytest.approx(float(drawn.mean()), abs=4 * float(drawn.std()) / 4000**0.5)


def test_a_feed_that_is_slower_than_the_step_sets_its_length() -> None:
    slow = simulate(profile(feed_seconds=0.5), setting("allreduce", 2))
    assert slow.seconds == pytest.approx(0.5)
    assert simulate(profile(feed_seconds=0.01), setting("allreduce", 2)).feed_seconds == 0


@pytest.mark.parametrize("bucket", [None, 1_000, 250_000, 10**9])
def test_buckets_are_those_ddp_lays(bucket: int | None) -> None:
    draw = random.Random(7)
    sizes = [draw.choice([1, 64, 5_000, 40_000, 400_000, 9_000_000]) for _ in range(80)]
    gradients = [Gradient(4 * size, 1.0) for size in sizes]
    caps = [DDP_FIRST_BYTES, DDP_BYTES] if bucket is None else [bucket]
    # After its first backward DDP lays buckets in the order in which gradients came: the reverse of registration.
    tensors = [torch.empty(size, device="meta") for size in reversed(sizes)]
    laid, _ = _compute_bucket_assignment_by_size(tensors, caps, [False] * len(sizes), list(range(len(sizes))))
    strategy = "allreduce" if bucket is None else f"allreduce:bucket={bucket}B"
    found = catalogue.resolve(strategy).messages(payload_of(gradients), 2)
    assert [m.bucket.payload_bytes for m in found] == [sum(4 * tensors[i].numel() for i in indices) for indices in laid]


def test_a_bucket_does_not_overtake_the_one_before_it() -> None:
    early_last = (Gradient(2000, 5 * MS), Gradient(2000, 20 * MS))
    found = messages_of(catalogue.resolve("allreduce:bucket=1KB"), early_last, 30 * MS, 2)
    assert [m.ready_seconds for m in found] == [20 * MS, 20 * MS]


def test_small_gradients_travel_together_and_packs_after_backward() -> None:
    gradients = [Gradient(size, 1 * MS) for size in (100, 5000, 300, 200, 700)]
    together = messages_of(catalogue.resolve("allreduce:small=1KB"), gradients, 3 * MS, 2)
    assert [(m.claim.bucket.payload_bytes, m.claim.passes > BUCKET_PASSES) for m in together] == [
        (1200, True),
        (5000, False),
        (100, False),
    ]
    packs = messages_of(catalogue.resolve("allreduce:packs=4"), gradients, 3 * MS, 2)
    assert [m.claim.bucket.payload_bytes for m in packs] == [1575] * 4
    assert {m.ready_seconds for m in packs} == {3 * MS}


def steps(count: int) -> list[tuple[StepProfile, str, int, int, SimulatedNetwork, HostCost]]:
    """Any steps: models, strategies, layouts, networks and hosts, drawn with a fixed seed."""
    draw = random.Random(11)
    found = []
    for _ in range(count):
        backward = draw.uniform(1, 100) * MS
        ready = sorted((draw.uniform(0, backward) for _ in range(draw.randint(1, 30))), reverse=True)
        step = profile(
            backward_seconds=backward,
            gradients=tuple(Gradient(int(10 ** draw.uniform(2, 6)), when) for when in ready),
            spread_seconds=draw.choice([0.0, 2 * MS]),
            feed_seconds=draw.choice([None, None, 0.1]),
            devices_per_node=draw.choice([None, 2]),
        )
        network = SimulatedNetwork(
            between=LinkModel(10 ** draw.uniform(5, 9), draw.choice([0.0, 1e-5, 1e-3])),
            inside=LinkModel(10 ** draw.uniform(6, 10), draw.choice([0.0, 1e-6])),
            in_flight=draw.choice([1, 2, 3]),
        )
        host = HostCost(draw.choice([0.0, 1e-9]), draw.choice([0.0, 1e-4]))
        found.append((step, draw.choice(STRATEGIES), draw.choice([2, 3, 8, 64]), draw.choice([1, 2, 8]), network, host))
    return found


def seconds(step: StepProfile, strategy: str, layout: Layout, network: SimulatedNetwork, host: HostCost) -> float:
    return simulate(
        step, SimulatedSetting(strategy=catalogue.resolve(strategy), layout=layout, network=network, host=host)
    ).seconds


def test_more_bandwidth_never_hurts_and_more_latency_never_helps() -> None:
    hurt = helped = 0
    for step, strategy, workers, per_node, network, host in steps(400):
        layout, between, inside = Layout(workers, per_node), network.between, network.inside
        usual = seconds(step, strategy, layout, network, host)
        for factor in (1.1, 2, 100):
            faster = replace(network, between=LinkModel(between.bytes_per_second * factor, between.latency_seconds))
            inner = replace(network, inside=LinkModel(inside.bytes_per_second * factor, inside.latency_seconds))
            assert seconds(step, strategy, layout, faster, host) <= usual * (1 + 1e-12)
            assert seconds(step, strategy, layout, inner, host) <= usual * (1 + 1e-12)
            hurt += seconds(step, strategy, layout, faster, host) < usual
            later = replace(
                network, between=LinkModel(between.bytes_per_second, between.latency_seconds * factor + 1e-6)
            )
            assert seconds(step, strategy, layout, later, host) >= usual * (1 - 1e-12)
            helped += seconds(step, strategy, layout, later, host) > usual
    assert min(hurt, helped) > 300, "the drawn steps hardly hang on the network: they prove nothing"


def test_throughput_is_never_more_than_linear() -> None:
    below = 0
    for step, strategy, workers, per_node, network, host in steps(400):
        alone = seconds(step, "independent", Layout(1, 1), network, host)
        together = seconds(step, strategy, Layout(workers, per_node), network, host)
        assert together >= alone * (1 - 1e-12)
        below += together > alone
    assert below > 200, "the drawn steps hardly exchange anything: they prove nothing"


def test_each_worker_more_leaves_the_others_no_faster() -> None:
    for step, strategy, _, per_node, network, host in steps(100):
        if catalogue.resolve(strategy).servers:  # more workers bring more cores for shared servers
            continue
        each = [seconds(step, strategy, Layout(per_node * nodes, per_node), network, host) for nodes in (2, 3, 8, 50)]
        assert each == sorted(each)


def test_servers_that_divide_the_update_do_not_beat_one_worker_alone() -> None:
    free = setting("ps:servers=4,place=own", 4, between=LinkModel())
    assert simulate(profile(), free).seconds == pytest.approx(profile().own_seconds, rel=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("workers", [1, 2, 64])
def test_without_anything_to_exchange_the_line_is_ideal(strategy: str, workers: int) -> None:
    empty = profile(gradients=(Gradient(0, 10 * MS), Gradient(0, 30 * MS)), spread_seconds=5 * MS)
    slow = setting(strategy, workers, host=HostCost(1.0, 1.0), between=LinkModel(1.0, 1.0))
    assert throughput(empty, slow) == pytest.approx(workers * throughput(empty, setting("independent", 1)), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "between", "host", "limit"),
    [
        ({}, LinkModel(1e9, 0.0), HostCost(), "compute"),
        ({}, LinkModel(1e5, 0.0), HostCost(), "bandwidth between nodes"),
        ({}, LinkModel(1e9, 0.02), HostCost(), "latency"),
        ({}, LinkModel(1e9, 0.0), HostCost(1e-6, 0.0), "exchange work on the cores"),
        ({"spread_seconds": 0.02}, LinkModel(1e9, 0.0), HostCost(), "slowest worker"),
        ({"feed_seconds": 1.0}, LinkModel(1e9, 0.0), HostCost(), "feed"),
    ],
)
def test_the_limit_is_what_a_step_waits_for_most(
    changes: dict[str, object], between: LinkModel, host: HostCost, limit: str
) -> None:
    assert limit_of(profile(**changes), setting("allreduce", 4, host=host, between=between)) == limit


def test_a_server_that_works_for_all_is_named() -> None:
    found = limit_of(profile(), setting("ps:place=own", 8, 8, host=HostCost(1e-6, 0.0)))
    assert found == "servers"


def test_a_step_of_a_thousand_workers_costs_no_more_than_one_of_two() -> None:
    many = tuple(Gradient(40_000, 30 * MS * (2000 - i) / 2000) for i in range(2000))
    begun = time.perf_counter()
    step = simulate(profile(gradients=many), setting("allreduce:bucket=100KB", 1024, 8))
    assert time.perf_counter() - begun < 5
    assert isinstance(step, Step)
    assert step.exchange_seconds > 0
