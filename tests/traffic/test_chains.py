"""The strategies by name: chains, options and what they claim to send."""

import pickle

import pytest

from paceline.errors import SpecError
from paceline.grammar import Bytes
from paceline.migrations import migrated_strategy
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.base import Payload, Transfer, by_pattern, claimed_bytes, settled_buffers
from paceline.traffic.bf16 import Bf16
from paceline.traffic.catalogue import MEMBERS, check, exchanges, resolve, resolve_member, with_codec
from paceline.traffic.independent import Independent
from paceline.traffic.ps import ParameterServer

PAYLOAD = Payload(gradient_bytes=(400, 40, 4), buffer_bytes=100)
PLAIN = Payload(gradient_bytes=(400, 40, 4), buffer_bytes=0)


def test_a_chain_says_when_what_and_how() -> None:
    alone, coded, served = (
        resolve(t) for t in ("independent", "bf16+allreduce:bucket=25MB", "ps:servers=2,mode=async")
    )
    assert (alone.schedule, alone.codec, alone.transport) == (Independent(), None, None)
    assert (coded.schedule, coded.codec, coded.transport) == (None, Bf16(), AllReduce(bucket=Bytes(25_000_000)))
    assert (served.schedule, served.codec, served.transport) == (None, None, ParameterServer(servers=2, mode="async"))


def test_a_resolved_strategy_crosses_to_other_processes_as_it_is() -> None:
    strategy = resolve("fp16+ps:mode=stale")
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert str(strategy) == "fp16+ps:mode=stale,bound=3"


@pytest.mark.parametrize(
    "text",
    ["allreduce", "allreduce:packs=2,reduce=sum", "ps:servers=2,mode=stale,bound=0", "ps", "bf16+allreduce:packs=2"],
)
def test_what_is_written_in_records_means_the_same_and_stays_the_same(text: str) -> None:
    assert resolve(check(text)) == resolve(text)
    assert check(check(text)) == check(text)


def test_defaults_are_left_out_of_records_and_what_was_resolved_is_in() -> None:
    assert check(" bf16+ allreduce:reduce=mean,packs=3") == "bf16+allreduce:packs=3"
    assert check("ps:mode=stale") == "ps:mode=stale,bound=3"


def test_an_unknown_strategy_is_refused_with_the_valid_ones_and_the_nearest() -> None:
    with pytest.raises(SpecError) as refused:
        resolve("alreduce:bucket=1MB")
    valid = ", ".join(MEMBERS)
    assert str(refused.value) == f"'alreduce' is not a known strategy. Did you mean 'allreduce'? Valid: {valid}."


def test_an_unknown_part_anywhere_in_a_chain_is_named() -> None:
    with pytest.raises(SpecError, match=r"'powersdg' is not a known strategy"):
        resolve("powersdg:rank=4+allreduce")
    with pytest.raises(SpecError, match=r"'alreduce' is not a known strategy. Did you mean 'allreduce'"):
        resolve("bf16+alreduce")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bf16", "bf16 has no transport: write bf16.allreduce"),
        ("ps:servers=2+allreduce", "ps and allreduce are both a transport: keep one of them"),
        ("bf16+fp16+allreduce", "bf16 and fp16 are both a codec: keep one of them"),
        ("allreduce:packs=2+bf16", "the order is schedule.codec.transport; write bf16.allreduce:packs=2"),
        ("independent+allreduce", "independent exchanges nothing, so allreduce cannot follow it: leave one out"),
        ("independent+bf16+allreduce", "independent exchanges nothing, so bf16 cannot follow it"),
    ],
)
def test_chains_without_a_meaning_are_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(text)


# Members of the user's own


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such_module:CODEC+allreduce", "There is no module 'no_such_module'.*one of independent, bf16"),
        ("paceline.errors:CODEC+allreduce", "The module 'paceline.errors' has no 'CODEC'"),
        ("paceline.errors:SpecError+allreduce", "is a type, not a paceline.traffic.members.Member"),
    ],
)
def test_an_address_that_names_no_member_is_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(text)


def test_a_part_by_itself_is_checked_too() -> None:
    assert resolve_member("ps:servers=2").claim == ParameterServer(servers=2)
    with pytest.raises(SpecError, match="servers=0"):
        resolve_member("ps:servers=0")


# Older spellings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("allreduce:wire=bf16", "bf16+allreduce"),
        ("allreduce:bucket=1MB,wire=fp16,reduce=sum", "fp16+allreduce:bucket=1MB,reduce=sum"),
        ("allreduce:wire=fp32", "allreduce"),
        ("allreduce:packs=2,wire=fp32", "allreduce:packs=2"),
    ],
)
def test_a_format_in_transit_of_an_older_record_is_a_codec_today(old: str, new: str) -> None:
    assert migrated_strategy(old) == new
    assert migrated_strategy(new) == new
    assert str(resolve(new)) == new
    with pytest.raises(SpecError, match=f"write '{new}'".replace("+", r"\+")):
        resolve(old)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allreduce:bucket=1MB,packs=2", "bucket= and packs= cannot be combined"),
        ("allreduce:packs=2,small=1KB", "packs= and small= cannot be combined"),
        ("allreduce:bucket=0", "bucket=0 is not valid: it must be above 0 bytes"),
        ("allreduce:small=0B", "small=0 is not valid: leave it out to switch it off"),
        ("allreduce:packs=0", "packs=0 is not valid: it must be at least 1"),
        (
            "allreduce:packs=2,overlap=on",
            "packs= cannot be combined with overlap=on.*Leave overlap out, or use bucket=",
        ),
        ("allreduce:compress=fp8", "'compress' is not a known option of strategy allreduce. Valid: bucket, packs"),
        ("ps:servers=0", "servers=0 is not valid: it must be from 1 to 64"),
        ("ps:bound=3", "bound=3 cannot be combined with mode=sync: leave it out, or use mode=stale"),
        ("ps:mode=async,bound=3", "bound=3 cannot be combined with mode=async"),
        ("ps:mode=stale,bound=-1", "bound=-1 is not valid: it must be at least 0"),
        ("ps:place=elsewhere", "Valid: shared, own"),
        ("independent:wire=bf16", "'wire' is not a known option of strategy independent. Valid: none"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(text)


def test_an_all_reduce_overlaps_unless_it_is_told_not_to_or_needs_all_gradients_first() -> None:
    overlaps = {text: resolve(f"allreduce{text}").overlaps for text in ("", ":overlap=off", ":packs=2", ":small=1KB")}
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
def test_a_narrow_codec_sends_two_bytes_per_element(element_bytes: int, payload: int) -> None:
    sizes = tuple(n * element_bytes for n in (100, 10, 1))
    given = Payload(gradient_bytes=sizes, buffer_bytes=0, element_bytes=element_bytes)
    assert by_pattern(resolve("allreduce").transfers(given, 2), "step") == {"ring": payload}
    for codec in ("bf16", "fp16"):
        assert by_pattern(resolve(f"{codec}+allreduce").transfers(given, 2), "step") == {"ring": 222}
        assert by_pattern(resolve(f"{codec}+ps:servers=3").transfers(given, 2), "step") == {
            "to_server": 222,
            "from_server": payload,
        }


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


def test_what_is_sent_every_so_many_steps_counts_from_the_first_step_of_all() -> None:
    transfers = [Transfer("ring", 100, every=4), Transfer("ring", 7), Transfer("broadcast", 1, per="settle")]
    assert claimed_bytes(transfers, first_step=0, steps=11, settles=2) == {"ring": 2 * 100 + 11 * 7, "broadcast": 2}
    assert claimed_bytes(transfers, first_step=11, steps=1, settles=0) == {"ring": 100 + 7}
    assert by_pattern(transfers, "step") == {"ring": 25 + 7}
    assert Transfer("ring", 100, every=4).sent_bytes(2) == 25


def test_what_is_only_gathered_goes_to_every_other_worker() -> None:
    assert [Transfer("gather", 100).sent_bytes(workers) for workers in (1, 2, 8)] == [0, 100, 700]


def test_a_strategy_can_be_changed_in_one_respect() -> None:
    packed = resolve("allreduce:packs=3,reduce=sum")
    assert str(packed.regrouped(1_000_000)) == "allreduce:bucket=1MB,reduce=sum"
    assert str(packed.regrouped(None)) == "allreduce:reduce=sum"
    assert str(with_codec(packed, "bf16")) == "bf16+allreduce:packs=3,reduce=sum"
    assert with_codec(resolve("fp16+allreduce"), "bf16") is None
    assert str(resolve("bf16+ps").with_servers(4)) == "bf16+ps:servers=4"
    independent = resolve("independent")
    assert independent.regrouped(1) is independent.with_servers(2) is with_codec(independent, "bf16") is None


def test_only_replicas_that_never_agree_exchange_nothing() -> None:
    assert [exchanges(text) for text in ("independent", "allreduce", "bf16+ps:mode=async")] == [False, True, True]


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
