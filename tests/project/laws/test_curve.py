import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from project.laws.tables import table

from paceline.errors import DataError, SpecError
from paceline.project.curve import Point
from paceline.project.laws.forecast import Forecast, forecast
from paceline.project.laws.table import ScalingTable

NEAR_LINEAR = forecast(table([1, 2, 4, 8], [100, 195, 380, 750], nodes=[1, 1, 1, 1]))
NODES = forecast(
    table([1, 4, 8, 16, 32], [100, 380, 620, 1200, 2300], nodes=[1, 1, 2, 4, 8], batch=[32, 32, 32, 32, 32])
)
TWO_ROWS = forecast(table([1, 16], [130.9, 74.7], nodes=[1, 4]))
SERVED = forecast(table([1, 2, 4, 8], [n * 100 / (1 + 0.2 * (n - 1)) for n in (1, 2, 4, 8)]))


def test_the_curve_is_in_the_order_asked_and_passes_near_the_rows() -> None:
    points = NEAR_LINEAR.curve([Point(8), Point(1), Point(16)]).points
    assert [p.point.workers for p in points] == [8, 1, 16]
    assert [p.throughput for p in points[:2]] == pytest.approx([750, 100], rel=0.03)


@pytest.mark.parametrize("found", [NEAR_LINEAR, NODES, SERVED, TWO_ROWS])
def test_bands_hold_the_middle_and_widen_with_the_distance(found: Forecast) -> None:
    largest = int(found.table.counts[-1])
    points = found.curve([Point(largest * 2**doublings) for doublings in range(5)]).points
    for p in points:
        assert p.low95 < p.low80 < p.throughput < p.high80 < p.high95  # type: ignore[operator]
    for low, high in (("low80", "high80"), ("low95", "high95")):
        widths = [getattr(p, high) / getattr(p, low) for p in points]
        assert widths == sorted(widths)


@pytest.mark.parametrize("per_node", [None, 4, 6])
@pytest.mark.parametrize("found", [NEAR_LINEAR, NODES, SERVED, TWO_ROWS])
def test_throughput_is_never_more_than_linear(found: Forecast, per_node: int | None) -> None:
    asked = [Point(n, None if per_node is None else math.ceil(n / per_node)) for n in range(1, 65)]
    per_worker = [p.throughput / p.point.workers for p in found.curve(asked).points]  # type: ignore[operator]
    assert all(b <= a * 1.0001 for a, b in itertools.pairwise(per_worker))


def test_the_knee_is_where_a_doubling_brings_less_than_half() -> None:
    knee = SERVED.curve([Point(n) for n in range(1, 65)]).knee_workers
    # T = 0.8 + 0.2n, so 2·T(n)/T(2n) < 1.5 where 2(0.8 + 0.2n) < 1.5(0.8 + 0.4n): from n = 2 on.
    assert knee in (2, 3)
    assert NEAR_LINEAR.curve([Point(8)]).knee_workers is None


def test_a_server_for_all_saturates_also_where_the_table_tells_nodes() -> None:
    counts, nodes = [1, 2, 4, 8, 16], [1, 1, 1, 1, 2]

    def law(n: int) -> float:
        return n * 100 / (1 + 0.1 * (n - 1))

    found = forecast(table(counts, [law(n) for n in counts], nodes=nodes)).curve([Point(16), Point(32), Point(64)])
    for point in found.points:
        assert point.throughput == pytest.approx(law(point.point.workers), rel=0.05)


def test_a_batch_that_is_divided_stays_divided_when_the_knee_is_looked_for() -> None:
    strong = forecast(table([1, 2, 4], [219, 427, 813], batch=[256, 128, 64]))
    divided = strong.curve([Point(n, None, 256 / n) for n in (1, 2, 4, 8, 16, 32)])
    assert divided.knee_workers is not None
    gain = divided.points[-1].throughput / divided.points[-2].throughput  # type: ignore[operator]
    assert (gain < 1.5) == (divided.knee_workers <= 16)
    whole = strong.curve([Point(8)])
    assert any("divide a global batch of 256" in warning for warning in whole.warnings)
    assert not any("divide" in warning for warning in divided.warnings)


def test_a_batch_far_from_all_rows_is_refused() -> None:
    found = forecast(table([1, 2, 4], [100, 195, 380], batch=[64, 64, 64]))
    found.curve([Point(8, None, 32 * 64)])
    with pytest.raises(SpecError, match="Batch 4096 is too far from the measured 64"):
        found.curve([Point(8, None, 4096)])


def test_what_limits_changes_from_compute_to_what_is_exchanged() -> None:
    first, last = SERVED.curve([Point(1), Point(64)]).points
    assert (first.limit, last.limit) == ("compute", "bandwidth")


def test_nodes_are_as_full_as_in_the_table_unless_given() -> None:
    points = NODES.curve([Point(64), Point(64, 64), Point(2)]).points
    assert [p.point.nodes for p in points] == [16, 64, 1]
    # Full nodes are as in the table; a worker on each never was measured, and may be dearer or spared its neighbours.
    full, spread = (p.high80 / p.low80 for p in points[:2])  # type: ignore[operator]
    assert spread - 1 > 2 * (full - 1)
    assert all(p.step_seconds is not None and p.point.batch == 32 for p in points)


def test_leaving_the_only_node_that_was_measured_widens_the_band_and_is_told() -> None:
    seen, away = NEAR_LINEAR.curve([Point(8, 1), Point(16, 2)]).points
    assert away.high80 / away.low80 - 1 > 1.3 * (seen.high80 / seen.low80 - 1)  # type: ignore[operator]
    assert away.high95 / away.low95 - 1 > 1.3 * (seen.high95 / seen.low95 - 1)  # type: ignore[operator]
    assert any("comes from the priors only" in text for text in NEAR_LINEAR.curve([Point(16, 2)]).warnings)
    assert any("assumes one node for all workers" in text for text in NEAR_LINEAR.curve([Point(16)]).warnings)


def test_a_larger_batch_takes_longer_and_yields_more() -> None:
    small, large = NODES.curve([Point(8, 2, 32), Point(8, 2, 128)]).points
    assert large.step_seconds > 2 * small.step_seconds  # type: ignore[operator]
    assert large.throughput >= small.throughput  # type: ignore[operator]


def test_two_rows_are_enough_but_not_for_everything() -> None:
    found = forecast(table([1, 2], [100, 190]))
    curve = found.curve([Point(4), Point(128)])
    assert 300 < curve.points[0].throughput < 400  # type: ignore[operator]
    assert any("Two worker counts" in text for text in curve.warnings)
    with pytest.raises(
        SpecError, match="129 workers are more than 64 times the measured 2, too far to project from 2 worker counts"
    ):
        found.curve([Point(129)])


def width(found: Forecast, workers: int, nodes: int) -> float:
    """The ratio of the ends of the 80 % band."""
    point = found.curve([Point(workers, nodes)]).points[0]
    assert point.low80 is not None
    assert point.high80 is not None
    return point.high80 / point.low80


LOSING = {(1, 1): 100.0, (2, 1): 190.0, (4, 1): 370.0, (8, 2): 480.0, (16, 4): 920.0, (32, 8): 1800.0}


def losing(rows: int) -> Forecast:
    """The first rows of a table that loses a third of its throughput at the first boundary of a node."""
    places = list(LOSING)[:rows]
    return forecast(table([n for n, _ in places], [LOSING[p] for p in places], nodes=[m for _, m in places]))


def test_a_cluster_that_lost_nothing_at_the_first_boundary_is_not_expected_to_lose_much_at_the_next() -> None:
    kept, lost = (
        forecast(table([1, 4, 8], [100, 380, speed], nodes=[1, 1, 2])).curve([Point(8, 2), Point(16, 4)]).points
        for speed in (755, 500)
    )
    for (first, next_one), most in ((kept, 0.03), (lost, 0.2)):
        assert 0 <= 1 - next_one.throughput / (2 * first.throughput) < most  # type: ignore[operator]
    kept_low, lost_low = (points[1].low80 / points[1].throughput for points in (kept, lost))  # type: ignore[operator]
    assert kept_low > 0.9 > lost_low


def test_a_node_that_was_never_left_is_expected_to_cost_a_few_percent_at_most() -> None:
    found = forecast(table([1, 4], [100, 380], nodes=[1, 1]))
    inside, outside = found.curve([Point(4, 1), Point(8, 2)]).points
    assert 0.005 < 1 - outside.throughput / (2 * inside.throughput) < 0.05  # type: ignore[operator]


def test_a_loss_that_grows_with_every_worker_on_a_node_goes_on_across_nodes() -> None:
    ring, gather = (
        forecast(table([1, 2, 4], speeds, nodes=[1, 1, 1])).curve([Point(4, 1), Point(8, 2)]).points
        for speeds in ([100.0, 184.0, 360.0], [100.0, 194.0, 360.0])  # 8 and 10 %, or 3 and 10 %
    )
    losses = [1 - b.throughput / (2 * a.throughput) for a, b in (ring, gather)]  # type: ignore[operator]
    assert losses[1] > 2 * losses[0]
    assert losses[1] > 0.05


def test_with_one_row_on_several_nodes_the_band_is_wider_than_with_three() -> None:
    one, three = losing(4), losing(6)
    assert width(one, 64, 16) > 1.1 * width(three, 64, 16)


def test_the_band_follows_what_was_seen_of_nodes_rather_than_how_many_workers_were_measured() -> None:
    more_on_a_node = forecast(
        table([1, 2, 3, 4, 8], [100, 190, 281, 370, 480], nodes=[1, 1, 1, 1, 2])
    )  # one count more, and none more on several nodes
    assert width(more_on_a_node, 16, 4) > 0.8 * width(losing(4), 16, 4) > 1.2
    assert width(losing(4), 8, 2) < 1.15, "this place was measured"


def rows_of_many_batches(strange: float) -> ScalingTable:
    """Rows of six worker counts and eight batches; those of 3 workers take `strange` times as long."""
    places = [(n, float(b)) for n in (1, 2, 3, 4, 6, 8) for b in (8, 12, 16, 24, 32, 48, 64, 96)]
    seconds = [(0.1 + b / 100) * (1 + 0.1 * (n - 1) / n) * (strange if n == 3 else 1) for n, b in places]
    return table(
        [n for n, _ in places],
        [n * b / s for (n, b), s in zip(places, seconds, strict=True)],
        nodes=[1] * len(places),
        batch=[b for _, b in places],
    )


def test_among_many_rows_one_count_that_no_law_comes_near_is_a_warning() -> None:
    curve = forecast(rows_of_many_batches(2.0)).curve([Point(16, 1, 32)])
    assert any("8 of 48 rows, of 3 workers, are up to" in text for text in curve.warnings)
    usual = forecast(rows_of_many_batches(1.0)).curve([Point(16, 1, 32)])
    assert curve.points[0].throughput == pytest.approx(usual.points[0].throughput, rel=0.1)
    assert not any("no law" in text or "scaling law" in text for text in usual.warnings)


def test_a_column_of_synchronisation_that_leaves_too_little_compute_is_ignored_rather_than_refused() -> None:
    bare = table([1, 2, 4, 8], [100, 195, 380, 740], nodes=[1, 1, 1, 1], batch=[32] * 4)
    wrong = replace(bare, sync_seconds=0.9 * bare.seconds)
    curve = forecast(wrong).curve([Point(16, 1)])
    assert any("sync_seconds were ignored" in text for text in curve.warnings)
    assert curve.points[0].throughput == pytest.approx(1450, rel=0.05)


def test_a_table_without_nodes_names_no_limit_between_nodes() -> None:
    jump = forecast(table([1, 8, 16, 32], [100, 780, 400, 700]))
    limits = {point.limit for point in jump.curve([Point(n) for n in (1, 8, 16, 64, 256)]).points}
    assert "bandwidth" in limits
    assert not any("node" in limit for limit in limits)


def test_speed_that_falls_to_nothing_is_refused() -> None:
    with pytest.raises(DataError, match=r"the row of 8 workers is .* times away from what any scaling law"):
        forecast(table([1, 2, 4, 8], [100, 50, 5, 0.01]))


@pytest.mark.parametrize("speeds", [[100, 400, 1600, 6400], [100, 50, 25, 12]])
def test_a_table_that_no_law_comes_near_is_refused(speeds: list[float]) -> None:
    with pytest.raises(DataError, match="times away from what any scaling law predicts: check it, or leave it out"):
        forecast(table([1, 2, 4, 8], speeds))


def test_a_strong_loss_between_nodes_is_followed_not_taken_for_a_bad_row() -> None:
    assert TWO_ROWS.curve([Point(16, 4)]).points[0].throughput == pytest.approx(74.7, rel=0.1)


def test_two_rows_that_lose_much_are_not_sure_of_how_the_loss_grows() -> None:
    point = TWO_ROWS.curve([Point(64)]).points[0]
    assert point.high80 / point.low80 > 1.5  # type: ignore[operator]


def test_a_jump_where_nodes_are_not_told_is_taken_for_the_edge_of_a_node_rather_than_for_growth() -> None:
    found = forecast(table([1, 8, 16], [106.8, 806.6, 1090.2]))  # 8 on each node; 32 were measured at 1923.7
    assert found.curve([Point(32)]).points[0].throughput == pytest.approx(1923.7, rel=0.15)


def test_ten_thousand_workers_are_answered_within_a_second() -> None:
    start = time.perf_counter()
    point = NODES.curve([Point(10_000, 1250)]).points[0]
    assert time.perf_counter() - start < 1
    assert np.isfinite(point.throughput or np.nan)
