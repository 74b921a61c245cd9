import numpy as np
import pytest

from paceline.project.laws.assumed_nodes import AssumedNodesLaw
from paceline.project.laws.base import Law, Scope, Settings
from paceline.project.laws.catalogue import family
from paceline.project.laws.flat import FlatLaw
from paceline.project.laws.nodes import NodesLaw

COUNTS = np.array([1.0, 2, 4, 8, 16, 32, 64, 1024])
WITHOUT_NODES, WITH_NODES = Scope(1.0, None, COUNTS, knows_nodes=False), Scope(1.0, 32.0, COUNTS, knows_nodes=True)
LAWS = (*family(WITHOUT_NODES), *family(WITH_NODES))


def settings(law: Law) -> Settings:
    if not law.scope.knows_nodes:
        return Settings(COUNTS, None, None)
    return Settings(COUNTS, np.maximum(1, COUNTS / 8), np.full_like(COUNTS, 32))


def draws(law: Law) -> np.ndarray:
    return law.centre + law.spread * np.random.default_rng(0).standard_normal((200, len(law.centre)))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_more_workers_never_make_a_step_shorter(law: Law) -> None:
    seconds = law.log_seconds(draws(law), settings(law))
    assert np.all(np.diff(seconds, axis=1) >= -1e-12)  # so throughput is never more than linear


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_nor_does_one_more_worker_on_nodes_that_fill_up(law: Law) -> None:
    counts = np.arange(1.0, 41)
    at = Settings(counts, None, np.full_like(counts, 32) if law.scope.knows_nodes else None)
    placed = at.on_nodes_of(8) if law.scope.knows_nodes else at
    assert np.all(np.diff(law.log_seconds(draws(law), placed), axis=1) >= -1e-12)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_without_exchange_and_spread_the_line_is_ideal(law: Law) -> None:
    draw = law.centre.copy()
    quiet = law.exchanging | np.array([name in ("slowest", "sharing") for name in law.parameters])
    draw[quiet] = -50
    seconds = law.log_seconds(draw[None, :], settings(law))
    assert np.ptp(seconds) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_dearer_exchange_never_helps(law: Law) -> None:
    many = draws(law)
    for index in np.flatnonzero(law.exchanging):
        dearer = many.copy()
        dearer[:, index] += 1
        assert np.all(law.log_seconds(dearer, settings(law)) >= law.log_seconds(many, settings(law)) - 1e-12)


def test_shapes_grow_as_they_are_named() -> None:
    def added(shape: str) -> np.ndarray:
        law = next(one for one in LAWS if isinstance(one, FlatLaw) and one.shape == shape and not one.overlaps)
        parts = law.parts(law.centre[None, :], Settings(np.array([2.0, 4, 8]), None, None))
        return parts["exchange"].reshape(3)

    assert added("ring") / added("ring")[0] == pytest.approx([1, 1.5, 1.75])  # 2(n − 1)/n
    assert added("gather") / added("gather")[0] == pytest.approx([1, 3, 7])  # n − 1


def test_to_a_law_without_nodes_it_makes_no_difference_where_workers_are() -> None:
    blind = [one for one in family(Scope(1.0, None, COUNTS, knows_nodes=True)) if isinstance(one, FlatLaw)]
    assert {one.shape for one in blind} == {"ring", "gather"}
    for law in blind:
        here, there = (
            law.log_seconds(draws(law), Settings(COUNTS, nodes, None, COUNTS.max()))
            for nodes in (np.ones_like(COUNTS), COUNTS)
        )
        assert np.array_equal(here, there)


def test_compute_is_a_fixed_part_and_one_in_proportion_to_the_batch() -> None:
    law = next(one for one in LAWS if isinstance(one, NodesLaw) and one.scope is WITH_NODES)
    at = Settings(np.ones(3), np.ones(3), np.array([32.0, 64, 96]))
    seconds = np.exp(law.log_seconds(law.centre[None, :], at))[0]
    assert seconds[2] - seconds[1] == pytest.approx(seconds[1] - seconds[0])
    assert seconds[1] < 2 * seconds[0]


def test_hiding_makes_a_step_shorter_but_not_shorter_than_its_longer_part() -> None:
    plain, hidden = (one for one in family(WITHOUT_NODES) if isinstance(one, FlatLaw) and one.shape == "ring")
    at = Settings(np.array([8.0]), None, None)
    draw = plain.centre.copy()
    parts = plain.parts(draw[None, :], at)
    compute = sum(float(parts[name][0, 0]) for name in ("compute", "slowest"))
    with_overlap = float(np.exp(hidden.log_seconds(np.append(draw, 0.0)[None, :], at))[0, 0])
    assert compute < with_overlap < float(np.exp(plain.log_seconds(draw[None, :], at))[0, 0])


def belief(laws: tuple[Law, ...], kind: type[Law]) -> float:
    """The share of the prior belief that the laws of exactly this kind have."""
    return sum(law.share for law in laws if type(law) is kind) / sum(law.share for law in laws)


def test_before_any_data_nodes_matter_if_they_are_given_and_are_supposed_half_of_the_time_if_not() -> None:
    assert belief(family(WITH_NODES), FlatLaw) == pytest.approx(0.03)
    assert belief(family(WITHOUT_NODES), AssumedNodesLaw) == pytest.approx(0.5)
    few = family(Scope(1.0, None, COUNTS[:3], knows_nodes=False))  # 1, 2 and 4 workers: no edge between them
    assert belief(few, FlatLaw) == pytest.approx(1)
    for laws in (family(WITH_NODES), family(WITHOUT_NODES)):
        assert sum(law.share for law in laws if law.overlaps) == pytest.approx(
            sum(law.share for law in laws if not law.overlaps)
        )


def test_nodes_are_supposed_only_where_the_counts_of_a_table_lie_on_both_sides_of_an_edge() -> None:
    def sizes(*counts: float) -> set[int]:
        laws = family(Scope(1.0, None, np.array(counts), knows_nodes=False))
        return {law.node_size for law in laws if isinstance(law, AssumedNodesLaw)}

    assert sizes(1, 2, 4) == set()
    assert sizes(1, 8, 16) == {4, 8}
    assert sizes(8, 16) == {8}


def test_nodes_are_full_where_there_are_no_more_than_it_takes() -> None:
    at = Settings(np.array([8.0, 9, 12, 12]), np.array([1.0, 2, 2, 6]), None, 8)
    assert at.per_node.tolist() == [8, 8, 8, 2]
