"""The data of workloads before a study: how much there is, and why it would not do."""

import pytest

from paceline.engines.inspection import DataFacts, Inspection, inspect
from paceline.spec import RunSpec

SMALL = "vae:data=generated,samples=64,validation=32"


def test_the_sizes_of_data_sets_are_known_and_what_cannot_be_read_is_told() -> None:
    too_many = "pilotnet:data=generated,samples=1000000"
    seen = inspect([SMALL, too_many, "faulty:data_fails", "faulty:data_exits", SMALL])
    assert seen.facts == {SMALL: DataFacts(training=64, validation=32)}
    assert list(seen.problems) == [too_many, "faulty:data_fails"]  # who exits tells nothing
    assert "samples=1000000 is too many" in seen.problems[too_many]
    assert seen.problems["faulty:data_fails"].endswith("cannot be read: OSError: the disk is gone")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"workers": 2, "batch": 32}, None),
        ({"workers": 4, "batch": 32}, "batch=32 on 4 workers is a global batch of 128, which is larger than the data"),
        ({"workers": 4, "batch": 32, "feed": "dataset:shard=off"}, None),
        ({"workers": 4, "batch": 32, "feed": "synthetic"}, None),
    ],
)
def test_a_global_batch_larger_than_the_data_is_a_problem_of_some_runs(
    settings: dict[str, str | int], said: str | None
) -> None:
    spec = RunSpec.from_dict({"workload": SMALL, "steps": 1, **settings})
    problem = Inspection({SMALL: DataFacts(training=64, validation=32)}).problem(spec)
    assert problem is None if said is None else said in str(problem)
