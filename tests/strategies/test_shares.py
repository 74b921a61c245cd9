"""How much each loss weighs, and the check that the weights were true."""

from typing import Any

import pytest
import torch

from paceline.errors import ReplicaMisuse
from paceline.strategies.base import Share
from paceline.strategies.group import Group, run_in_process
from paceline.strategies.shares import Shares


def counting_group(group: Group) -> list[int]:
    """A list that gets one entry whenever this worker asks the others."""
    asked: list[int] = []
    plain_gather = group.all_gather

    def gather(tensor: torch.Tensor) -> list[torch.Tensor]:
        asked.append(1)
        return plain_gather(tensor)

    group.all_gather = gather  # type: ignore[method-assign]
    return asked


def test_a_share_weighs_by_samples_in_the_mean_over_all_or_over_the_worker() -> None:
    share = Share(samples=2, worker_samples=4, global_samples=10)

    def work(group: Group) -> tuple[float, float]:
        return (
            Shares(group, mean_over_all=True).weight(share),
            Shares(group, mean_over_all=False).weight(share),
        )

    assert run_in_process(2, work) == [(0.2, 0.5)] * 2


def test_without_a_share_every_worker_weighs_the_same() -> None:
    def work(group: Group) -> tuple[float, float]:
        return Shares(group, mean_over_all=True).weight(None), Shares(group, mean_over_all=False).weight(None)

    assert run_in_process(4, work) == [(0.25, 1.0)] * 4


def test_an_empty_worker_weighs_nothing_and_passes_the_check() -> None:
    def work(group: Group) -> float:
        shares = Shares(group, mean_over_all=True)
        weight = shares.weight(Share(samples=0, worker_samples=0, global_samples=5))
        shares.check(0)
        return weight + Share(0, 0, 5).of_worker

    assert run_in_process(1, work) == [0.0]


def test_equal_counts_are_checked_across_workers_once_and_locally_afterwards() -> None:
    def work(group: Group) -> list[int]:
        shares, asked, history = Shares(group, mean_over_all=True), counting_group(group), []
        for _ in range(4):
            shares.weight(None)
            shares.check(8)
            history.append(len(asked))
        shares.weight(None)
        with pytest.raises(ReplicaMisuse, match=r"exchange\(7\) after steps of 8 samples: pass share="):
            shares.check(7)
        return [*history, len(asked)]

    assert run_in_process(3, work) == [[1, 1, 1, 1, 1]] * 3


def test_different_counts_are_refused_on_every_worker_at_the_first_exchange() -> None:
    def work(group: Group) -> str:
        shares = Shares(group, mean_over_all=True)
        shares.weight(None)
        with pytest.raises(ReplicaMisuse) as refused:
            shares.check(8 + group.rank)
        return str(refused.value)

    results: Any = run_in_process(2, work)
    assert len(set(results)) == 1
    assert "Workers have different numbers of samples, [8, 9]: pass share=Share(" in results[0]


def test_shares_that_are_given_are_checked_without_asking_anyone() -> None:
    def work(group: Group) -> int:
        shares, asked = Shares(group, mean_over_all=True), counting_group(group)
        for count in (3, 5):  # counts may differ from step to step and from worker to worker
            samples = count + group.rank
            shares.weight(Share(samples - 1, samples, 99))
            shares.weight(Share(1, samples, 99))
            shares.check(samples)
        shares.weight(Share(3, 3, 99))
        with pytest.raises(ReplicaMisuse, match=r"exchange\(4\) does not match the 3 samples given to backward"):
            shares.check(4)
        return len(asked)

    assert run_in_process(2, work) == [0, 0]


def test_an_update_begins_with_a_clean_sheet() -> None:
    def work(group: Group) -> None:
        shares = Shares(group, mean_over_all=True)
        shares.weight(Share(3, 3, 6))
        shares.check(3)
        shares.weight(None)
        shares.check(3)
        shares.weight(Share(2, 2, 4))
        shares.check(2)

    run_in_process(2, work)


def test_several_losses_of_one_update_need_their_shares() -> None:
    def work(group: Group) -> None:
        shares = Shares(group, mean_over_all=True)
        shares.weight(None)
        shares.weight(None)
        with pytest.raises(ReplicaMisuse, match=r"2 losses make one update, .*pass share="):
            shares.check(8)

    run_in_process(2, work)


def test_where_there_is_no_common_mean_counts_may_differ() -> None:
    def work(group: Group) -> int:
        shares, asked = Shares(group, mean_over_all=False), counting_group(group)
        for samples in (4 + group.rank, 9):
            shares.weight(None)
            shares.check(samples)
        return len(asked)

    assert run_in_process(2, work) == [0, 0]


def test_an_update_without_an_exchange_is_refused() -> None:
    def work(group: Group) -> None:
        shares = Shares(group, mean_over_all=True)
        shares.weight(None)
        shares.check(4)
        shares.spend()
        with pytest.raises(ReplicaMisuse, match=r"call replica.exchange\(samples\) between backward and update"):
            shares.spend()

    run_in_process(2, work)
