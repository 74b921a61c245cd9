"""The laws of the data order."""

import subprocess
import sys

import numpy as np
import pytest

from paceline.errors import DataError, SpecError
from paceline.feeds.order import Order, Purpose, entropy, permutation, portion, validation_part

# Samples and batch per worker: even, with a rest, a rest smaller than the workers, one batch only, batches of one.
DATA = [(96, 8), (103, 8), (97, 4), (32, 4), (31, 3), (8, 1)]
SIZES = [1, 2, 3, 8]
FITTING = [(samples, batch, size) for samples, batch in DATA for size in SIZES if batch * size <= samples]


def orders(samples: int, batch: int, size: int, *, shard: bool = True, seed: int = 5) -> list[Order]:
    return [Order(samples=samples, batch=batch, rank=r, size=size, seed=seed, shard=shard) for r in range(size)]


@pytest.mark.parametrize(("samples", "batch", "size"), FITTING)
@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_of_all_workers_is_every_sample_exactly_once(samples: int, batch: int, size: int, epoch: int) -> None:
    workers = orders(samples, batch, size)
    steps = workers[0].steps_per_epoch
    taken = [w.indices(epoch * steps + k) for w in workers for k in range(steps)]
    assert sorted(np.concatenate(taken)) == list(range(samples))
    assert steps == int(np.ceil(samples / (batch * size)))


@pytest.mark.parametrize(("samples", "batch", "size"), FITTING)
def test_slices_of_n_workers_concatenate_to_the_batch_of_one_worker(samples: int, batch: int, size: int) -> None:
    workers = orders(samples, batch, size)
    (alone,) = orders(samples, batch * size, 1)
    assert alone.steps_per_epoch == workers[0].steps_per_epoch
    for step in range(2 * alone.steps_per_epoch):
        together = np.concatenate([w.indices(step) for w in workers])
        np.testing.assert_array_equal(together, alone.indices(step))


@pytest.mark.parametrize(("samples", "batch", "size"), FITTING)
@pytest.mark.parametrize("shard", [True, False])
def test_global_samples_are_what_all_workers_take_together(samples: int, batch: int, size: int, shard: bool) -> None:
    workers = orders(samples, batch, size, shard=shard)
    for step in range(2 * workers[0].steps_per_epoch):
        taken = sum(len(w.indices(step)) for w in workers)
        assert [w.global_samples(step) for w in workers] == [taken] * size


@pytest.mark.parametrize(("samples", "batch", "size"), FITTING)
def test_batches_are_full_but_the_last_which_is_split_as_evenly_as_possible(
    samples: int, batch: int, size: int
) -> None:
    workers = orders(samples, batch, size)
    *full, last = [[len(w.indices(k)) for w in workers] for k in range(workers[0].steps_per_epoch)]
    assert all(sizes == [batch] * size for sizes in full)
    assert max(last) - min(last) <= 1


def test_a_last_batch_smaller_than_the_workers_leaves_some_empty() -> None:
    sizes = [len(w.indices(4)) for w in orders(samples=98, batch=8, size=3)]
    assert sizes == [1, 1, 0]


def test_an_order_depends_on_seed_and_epoch_alone() -> None:
    of_epochs = [permutation(50, seed=1, epoch=e) for e in range(4)]
    assert len({tuple(o) for o in of_epochs}) == 4
    assert not np.array_equal(permutation(50, seed=2, epoch=0), of_epochs[0])
    permutation.cache_clear()
    np.testing.assert_array_equal(permutation(50, seed=1, epoch=2), of_epochs[2])


def test_the_order_of_a_seed_is_the_same_in_every_release() -> None:
    assert permutation(10, seed=0, epoch=0).tolist() == [9, 7, 2, 0, 4, 3, 5, 6, 1, 8]
    assert permutation(10, seed=0, epoch=0, rank=0).tolist() == [8, 2, 4, 6, 7, 0, 3, 1, 9, 5]


def test_every_purpose_has_random_numbers_of_its_own() -> None:
    starts = [entropy(7, purpose, *key) for purpose in Purpose for key in [(0,), (0, 0), (1,), (0, 1)]]
    assert len({tuple(s.generate_state(4)) for s in starts}) == len(starts)


def test_without_sharding_each_worker_sees_everything_in_an_order_of_its_own() -> None:
    workers = orders(samples=31, batch=4, size=3, shard=False)
    assert workers[0].steps_per_epoch == 8
    passes = [np.concatenate([w.indices(k) for k in range(8)]) for w in workers]
    assert all(sorted(p) == list(range(31)) for p in passes)
    assert len({tuple(p) for p in passes}) == 3
    assert [len(workers[0].indices(k)) for k in (0, 6, 7)] == [4, 4, 3]
    assert not np.array_equal(workers[0].indices(0), workers[0].indices(8))


def test_indices_may_be_written_to_without_changing_the_order() -> None:
    (order,) = orders(samples=20, batch=5, size=1)
    before = order.indices(1)
    order.indices(1)[:] = 0
    np.testing.assert_array_equal(order.indices(1), before)


@pytest.mark.parametrize("samples", [0, 1, 7, 10, 250])
@pytest.mark.parametrize("size", SIZES)
def test_validation_is_divided_into_contiguous_parts_without_padding(samples: int, size: int) -> None:
    parts = [validation_part(samples, rank, size) for rank in range(size)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(samples))
    lengths = [len(p) for p in parts]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == [len(portion(samples, rank, size)) for rank in range(size)]


def test_a_batch_larger_than_the_data_is_refused_with_the_largest_that_fits() -> None:
    with pytest.raises(SpecError, match=r"batch=8 on 4 workers is a global batch of 32.* 30 .*at most 7\."):
        orders(samples=30, batch=8, size=4)
    with pytest.raises(SpecError, match=r"batch=31 is larger than the data, 30 .*at most 30\."):
        orders(samples=30, batch=31, size=1)
    with pytest.raises(SpecError, match=r"batch=31 is larger .*at most 30\."):
        orders(samples=30, batch=31, size=4, shard=False)
    with pytest.raises(SpecError, match=r"at most 3 workers"):
        orders(samples=3, batch=1, size=4)
    with pytest.raises(DataError, match="no training samples"):
        orders(samples=0, batch=1, size=1)
    assert orders(samples=28, batch=7, size=4)[0].steps_per_epoch == 1
    assert orders(samples=30, batch=8, size=4, shard=False)[0].steps_per_epoch == 4


def test_orders_and_the_catalogue_need_no_torch() -> None:
    program = "import sys, paceline.feeds.order, paceline.feeds.catalogue; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0
