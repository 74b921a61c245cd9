"""The strategies by name: chains, options and what they claim to send."""

import pytest

from paceline.errors import SpecError
from paceline.grammar import Bytes
from paceline.traffic import catalogue
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.base import Payload, Transfer, by_pattern, settled_buffers
from paceline.traffic.catalogue import STRATEGIES, Entry, check, resolve
from paceline.traffic.independent import Independent
from paceline.traffic.ps import ParameterServer

PAYLOAD = Payload(gradient_bytes=(400, 40, 4), buffer_bytes=100)
PLAIN = Payload(gradient_bytes=(400, 40, 4), buffer_bytes=0)


def test_a_name_with_options_becomes_its_strategy() -> None:
    assert resolve("independent") == Independent()
    assert resolve("allreduce:bucket=25MB,wire=bf16") == AllReduce(bucket=Bytes(25_000_000), wire="bf16")
    assert resolve("ps:servers=2,mode=async") == ParameterServer(servers=2, mode="async")


@pytest.mark.parametrize("text", ["allreduce", "allreduce:packs=2,reduce=sum", "ps:servers=2,mode=stale,bound=0", "ps"])
def test_what_is_written_in_records_means_the_same_and_stays_the_same(text: str) -> None:
    assert resolve(check(text)) == resolve(text)
    assert check(check(text)) == check(text)


def test_defaults_are_left_out_of_records_and_what_was_resolved_is_in() -> None:
    assert check(" allreduce:wire=fp32,packs=3") == "allreduce:packs=3"
    assert check("ps:mode=stale") == "ps:mode=stale,bound=3"


def test_an_unknown_strategy_is_refused_with_the_valid_ones_and_the_nearest() -> None:
    with pytest.raises(SpecError) as refused:
        resolve("alreduce:wire=bf16")
    valid = ", ".join(STRATEGIES)
    assert str(refused.value) == f"'alreduce' is not a known strategy. Did you mean 'allreduce'? Valid: {valid}."


def test_an_unknown_part_anywhere_in_a_chain_is_named() -> None:
    with pytest.raises(SpecError, match=r"'powersdg' is not a known strategy"):
        resolve("powersdg:rank=4+allreduce")
    with pytest.raises(SpecError, match=r"'alreduce' is not a known strategy. Did you mean 'allreduce'"):
        resolve("ps+alreduce")


def test_a_part_that_wraps_nothing_cannot_stand_before_another() -> None:
    with pytest.raises(SpecError) as refused:
        resolve("ps:servers=2+allreduce")
    assert "'ps' cannot stand before '+' in 'ps:servers=2+allreduce': it wraps no other strategy" in str(refused.value)


def test_a_refused_chain_names_the_strategies_that_do_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "STRATEGIES", {**STRATEGIES, "outer": Entry(Independent, "wraps", wraps=True)})
    with pytest.raises(SpecError, match=r"'allreduce' cannot stand before '\+'.*Wrappers: .*outer"):
        resolve("outer+allreduce+ps")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allreduce:bucket=1MB,packs=2", "bucket= and packs= exclude one another"),
        ("allreduce:packs=2,small=1KB", "packs= and small= exclude one another"),
        ("allreduce:bucket=0", "bucket=0 must be above 0 bytes"),
        ("allreduce:small=0B", "small=0 makes no sense: leave it out to switch it off"),
        ("allreduce:packs=0", "packs=0 must be at least 1"),
        ("allreduce:packs=2,overlap=on", "packs= with overlap=on makes no sense.*Leave overlap out, or use bucket="),
        ("allreduce:wire=fp8", "Valid: fp32, bf16, fp16"),
        ("ps:servers=0", "servers=0 is not valid: it must be from 1 to 64"),
        ("ps:bound=3", "bound=3 has no meaning with mode=sync: leave it out, or use mode=stale"),
        ("ps:mode=async,bound=3", "bound=3 has no meaning with mode=async"),
        ("ps:mode=stale,bound=-1", "bound=-1 must be at least 0"),
        ("ps:place=elsewhere", "Valid: shared, own"),
        ("independent:wire=bf16", "'wire' is not a known option of strategy independent. Valid: none"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(text)


def test_an_all_reduce_overlaps_unless_it_is_told_not_to_or_needs_all_gradients_first() -> None:
    def overlaps_with(text: str) -> bool:
        strategy = resolve(f"allreduce{text}")
        assert isinstance(strategy, AllReduce)
        return strategy.overlaps

    overlaps = {text: overlaps_with(text) for text in ("", ":overlap=off", ":packs=2", ":small=1KB")}
    assert overlaps == {"": True, ":overlap=off": False, ":packs=2": False, ":small=1KB": True}


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_a_ring_sends_each_byte_twice_less_what_a_worker_keeps(workers: int) -> None:
    (ring,) = resolve("allreduce").transfers(PLAIN, workers)
    assert ring.sent_bytes(workers) == pytest.approx(2 * (workers - 1) / workers * 444)


@pytest.mark.parametrize("pattern", ["ring", "broadcast"])
def test_one_worker_alone_sends_nothing_to_others(pattern: str) -> None:
    assert Transfer(pattern, 1000).sent_bytes(1) == 0  # type: ignore[arg-type]


def test_bytes_that_leave_one_worker_are_those_that_arrive_at_others() -> None:
    assert 4 * Transfer("broadcast", 1000).sent_bytes(4) == 3 * 1000
    assert Transfer("to_server", 1000).sent_bytes(4) == 1000
    assert Transfer("from_server", 1000).sent_bytes(4) == 0


@pytest.mark.parametrize(("element_bytes", "payload"), [(4, 444), (8, 888)])
def test_a_narrow_wire_sends_two_bytes_per_element(element_bytes: int, payload: int) -> None:
    sizes = tuple(n * element_bytes for n in (100, 10, 1))
    given = Payload(gradient_bytes=sizes, buffer_bytes=0, element_bytes=element_bytes)
    assert by_pattern(resolve("allreduce").transfers(given, 2), "step") == {"ring": payload}
    for wire in ("bf16", "fp16"):
        assert by_pattern(resolve(f"allreduce:wire={wire}").transfers(given, 2), "step") == {"ring": 222}


def test_buffers_are_claimed_per_settle_and_only_where_there_is_someone_to_tell() -> None:
    assert settled_buffers(PAYLOAD, 2) == (Transfer("broadcast", 100, per="settle"),)
    assert settled_buffers(PAYLOAD, 1) == settled_buffers(PLAIN, 2) == ()
    assert by_pattern(resolve("allreduce").transfers(PAYLOAD, 2), "settle") == {"broadcast": 100}
    assert resolve("independent").transfers(PAYLOAD, 2) == ()


def test_parameter_servers_get_all_gradients_and_send_all_parameters() -> None:
    sync = resolve("ps:servers=3").transfers(PAYLOAD, 2)
    assert by_pattern(sync, "step") == {"to_server": 444, "from_server": 444}
    assert by_pattern(sync, "settle") == {"broadcast": 100}
    loose = resolve("ps:mode=async").transfers(PAYLOAD, 2)
    assert by_pattern(loose, "settle") == {"from_server": 444, "broadcast": 100}


def test_payloads_of_one_pattern_are_added_up() -> None:
    transfers = [Transfer("ring", 3), Transfer("ring", 4), Transfer("ring", 5, per="settle")]
    assert by_pattern(transfers, "step") == {"ring": 7}


@pytest.mark.parametrize(
    ("text", "synchronous", "servers"),
    [
        ("independent", False, 0),
        ("allreduce", True, 0),
        ("ps:servers=2", True, 2),
        ("ps:mode=async", False, 1),
        ("ps:mode=stale", False, 1),
    ],
)
def test_a_strategy_says_whether_it_waits_for_all_and_how_many_servers_it_has(
    text: str, synchronous: bool, servers: int
) -> None:
    traffic = resolve(text)
    assert (traffic.synchronous, traffic.servers) == (synchronous, servers)
