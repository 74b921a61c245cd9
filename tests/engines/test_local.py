"""Runs on this machine: the record is true, and whatever goes wrong is named and leaves nothing behind."""

import contextlib
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan
from paceline.errors import (
    CheckpointError,
    Hang,
    NonFiniteLoss,
    ReplicaMisuse,
    RunError,
    ServerLost,
    SpecError,
    WorkerFailed,
    WorkerLost,
)
from paceline.measure import sidecar
from paceline.measure.series import WorkerSeries
from paceline.measure.stopping import Stopping
from paceline.record import Record
from paceline.record_parts import DataSource
from paceline.spec import RunSpec


def run(out: Path, workload: str = "faulty:faulty", display: Any = None, **settings: Any) -> Record:
    """One run; as many workers per core as it takes."""
    settings = {"workers": 2, "steps": 12, **settings}
    cores = len(os.sched_getaffinity(0))
    sharing = next(k for k in range(1, 9) if settings["workers"] % k == 0 and settings["workers"] // k <= cores)
    spec = RunSpec(workload=workload, workers_per_device=sharing, **settings)
    return LocalEngine().run(plan(spec), out, display or NoDisplay())


@pytest.mark.parametrize("strategy", ["independent", "allreduce", "ps"])
def test_samples_phases_and_traffic_of_a_record_add_up(strategy: str, tmp_path: Path) -> None:
    record = run(tmp_path, strategy=strategy)
    assert record.samples_timed == sum(w.samples for w in record.per_worker)
    if strategy != "independent":  # whose workers are timed over the same time, not over the same steps
        assert record.steps_timed + record.warmup_steps == 12
        assert record.samples_timed == record.steps_timed * 16
        mean_step = np.mean([w.seconds for w in record.per_worker]) / record.steps_timed
        assert record.step_seconds == pytest.approx(mean_step, rel=1e-6)
    assert record.learning.samples_seen == 12 * 16
    assert record.learning.updates == 12
    assert record.traffic.counted == record.traffic.claimed
    assert record.workload.data == DataSource(source="a line", generated=True)
    assert len(record.learning.loss) == 12
    first, *_, last = record.learning.loss
    assert first is not None
    assert last is not None
    assert last < first
    assert Record.load(tmp_path) == record


def test_workers_that_agree_report_the_loss_of_all(tmp_path: Path) -> None:
    together = run(tmp_path / "two", workers=2, batch=4, steps=12)
    alone = run(tmp_path / "one", workers=1, batch=8, steps=12)
    assert together.learning.loss == pytest.approx(alone.learning.loss, rel=1e-4)
    assert together.learning.val_loss == pytest.approx(alone.learning.val_loss, rel=1e-4)


def test_epochs_give_a_validation_each_and_see_every_sample_once(tmp_path: Path) -> None:
    record = run(tmp_path, steps=None, epochs=3, batch=5)
    assert record.learning.samples_seen == 3 * 96
    assert record.learning.updates == 3 * 10
    assert [v.epoch for v in record.learning.validation] == [1, 2, 3]


def test_all_of_the_data_for_each_worker_without_sharding(tmp_path: Path) -> None:
    record = run(tmp_path, steps=None, epochs=1, feed="dataset:shard=off")
    assert record.learning.samples_seen == 2 * 96


def test_a_run_of_given_seconds_ends_at_the_same_step_everywhere(tmp_path: Path) -> None:
    record = run(tmp_path, "faulty:faulty:pause=0.01", steps=None, seconds=1.0, validate="off")
    with np.load(tmp_path / "series.npz") as series:
        assert len(series["worker0_end"]) == len(series["worker1_end"])
    assert 1.0 <= record.wall_seconds.training < 20


def test_seconds_bound_training_and_not_validation(tmp_path: Path) -> None:
    """An epoch is six steps of 20 ms, and its validation takes 0.2 s: counted, five of them would end the run."""
    workload = "faulty:faulty:pause=0.02,validation_pause=0.2"
    record = run(tmp_path, workload, steps=None, seconds=1.0, validate="epoch")
    assert record.wall_seconds.training >= 1.0
    assert record.wall_seconds.validation >= 0.2 * len(record.learning.validation) > 0


@pytest.mark.parametrize("strategy", ["ps:mode=async", "ps:mode=stale,bound=2", "independent"])
def test_workers_that_do_not_wait_still_end_together(strategy: str, tmp_path: Path) -> None:
    workload = "faulty:faulty:pause=0.002,slow_rank=1,slow=0.01"
    record = run(tmp_path, workload, strategy=strategy, steps=None, seconds=2.0, batch=4, checkpoint_every=30)
    with np.load(tmp_path / "series.npz") as series:
        samples = [int(series[f"worker{rank}_samples"].sum()) for rank in (0, 1)]
        steps = [len(series[f"worker{rank}_end"]) for rank in (0, 1)]
    assert record.learning.samples_seen == sum(samples)
    assert record.learning.updates == (steps[0] if strategy == "independent" else sum(steps))
    assert record.learning.global_batch == 4
    assert record.learning.validation[-1].samples == sum(samples)
    assert record.traffic.counted == record.traffic.claimed
    if strategy != "independent":
        assert (record.strategy_report["mean_staleness"] or 0) > 0


def test_a_parameter_that_no_gradient_reaches_is_left_alone_and_named(tmp_path: Path) -> None:
    losses = []
    for strategy in ("independent", "allreduce", "ps"):
        record = run(tmp_path / strategy, "faulty:faulty:unused=on", strategy=strategy, workers=1)
        assert any("spare" in warning for warning in record.warnings)
        losses.append(record.learning.loss)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize("strategy", ["allreduce", "ps", "independent"])
def test_a_gradient_that_is_missing_in_the_middle_of_training_fails_the_run(strategy: str, tmp_path: Path) -> None:
    with pytest.raises(
        ReplicaMisuse, match=r"No gradient reached 2\.weight, 2\.bias: freeze such parameters"
    ) as failed:
        run(tmp_path, "faulty:faulty:kind=forget,step=3", strategy=strategy)
    assert failed.value.exit_code == 1
    assert isinstance(failed.value, RunError)


@pytest.mark.parametrize("strategy", ["allreduce", "ps", "independent"])
def test_a_killed_worker_is_named_with_its_signal(strategy: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(WorkerLost, match="Worker 1 was killed by SIGKILL"):
        run(tmp_path, "faulty:faulty:kind=kill,rank=1,step=3", strategy=strategy, steps=100_000)
    assert time.monotonic() - begun < 30


def test_the_killed_worker_that_owns_the_servers_takes_them_along(tmp_path: Path) -> None:
    with pytest.raises(WorkerLost, match="Worker 0 was killed by SIGKILL"):
        run(tmp_path, "faulty:faulty:kind=kill,rank=0,step=3", strategy="ps:servers=2", steps=100_000)


def test_a_worker_that_raises_is_named_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed) as failure:
        run(tmp_path, "faulty:faulty:kind=raise,rank=1,step=3")
    text = str(failure.value)
    assert "Worker 1 failed: RuntimeError: the road ends here" in text
    assert "Last lines of worker 1:" in text


def test_a_worker_that_exits_is_named_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(WorkerLost, match="Worker 1 exited with 7 after step"):
        run(tmp_path, "faulty:faulty:kind=exit,rank=1,step=3,pause=0.3")


def test_a_loss_that_is_not_finite_stops_the_run_naming_step_and_worker(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteLoss, match="nan at step 3 on worker 1"):
        run(tmp_path, "faulty:faulty:kind=nan,rank=1,step=3")


@pytest.mark.parametrize("kind", ["stop", "sleep"])
def test_a_hanging_worker_is_named_although_all_wait(kind: str, tmp_path: Path) -> None:
    with pytest.raises(Hang, match="Worker 1 made no progress"):
        run(tmp_path, f"faulty:faulty:kind={kind},rank=1,step=6,pause=0.3", timeout=2.0)


def test_a_lost_server_ends_the_run_naming_it(tmp_path: Path) -> None:
    class KillServer(NoDisplay):
        def progress(self, **figures: Any) -> None:
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if any("paceline-server" in str(c.laddr) for c in process.net_connections("unix")):
                        process.kill()

    begun = time.monotonic()
    with pytest.raises(ServerLost, match="server 0 was killed by SIGKILL"):
        run(tmp_path, "faulty:faulty:pause=0.1", KillServer(), strategy="ps", steps=100_000)
    assert time.monotonic() - begun < 30


def test_a_run_listens_on_loopback_only(tmp_path: Path) -> None:
    seen: set[str] = set()

    class Look(NoDisplay):
        def progress(self, **figures: Any) -> None:
            for process in psutil.Process().children(recursive=True):
                for connection in process.net_connections("inet"):
                    if connection.status == psutil.CONN_LISTEN:
                        seen.add(connection.laddr.ip)

    run(tmp_path, "faulty:faulty:pause=0.05", Look(), strategy="ps", steps=40)
    assert seen == {"127.0.0.1"}


def _weights(out: Path) -> Mapping[str, Any]:
    import torch

    newest = sorted((out / "checkpoints").iterdir())[-1]
    shared = torch.load(newest / "shared.pt", weights_only=True)
    own = [torch.load(path, weights_only=True) for path in sorted(newest.glob("rank-*.pt"))]
    return {"shared": shared, "own": own}


def _same(a: Any, b: Any) -> bool:
    import torch

    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("strategy", ["independent", "allreduce:bucket=4KB", "ps:servers=2"])
def test_a_resumed_run_ends_bit_identically(strategy: str, workers: int, tmp_path: Path) -> None:
    vae = "vae:data=generated,samples=50,channels=3,hidden=8"
    settings: dict[str, Any] = {"workers": workers, "strategy": strategy, "batch": 3, "checkpoint_every": 7}
    whole = run(tmp_path / "whole", vae, steps=12, **settings)
    run(tmp_path / "first", vae, steps=7, **settings)
    rest = run(tmp_path / "rest", vae, steps=12, resume=str(tmp_path / "first"), **settings)
    assert _same(_weights(tmp_path / "whole"), _weights(tmp_path / "rest"))
    assert rest.learning.samples_seen == whole.learning.samples_seen
    assert rest.learning.val_loss == whole.learning.val_loss


def test_a_checkpoint_of_another_workload_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "first", "faulty:faulty:width=8", checkpoint_every=5)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run(tmp_path / "second", "faulty:faulty:width=9", resume=str(tmp_path / "first"), steps=20)


def test_a_prolonged_run_keeps_its_learning_rates(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"lr_rule": "linear", "checkpoint_every": 6}
    whole = run(tmp_path / "whole", steps=12, **settings)
    run(tmp_path / "first", steps=6, **settings)
    rest = run(tmp_path / "rest", steps=12, resume=str(tmp_path / "first"), **settings)
    assert rest.learning.val_loss == whole.learning.val_loss
    assert rest.spec.lr_warmup == 100
    assert any("still warming up" in warning for warning in rest.warnings)


@pytest.mark.parametrize("kind", ["vector", "constant", "number"])
def test_a_loss_that_nothing_can_be_learned_from_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="which cannot be trained"):
        run(tmp_path, f"faulty:faulty:loss_is={kind}")


def test_a_last_batch_too_small_for_batch_statistics_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="choose a --batch that divides the data"):
        run(tmp_path, "resnet18:image=32,width=2,classes=3,samples=9", batch=4, steps=None, epochs=1, validate="off")


def test_a_record_says_who_came_late_and_how_busy_everybody_was(tmp_path: Path) -> None:
    record = run(tmp_path, "slowed:slowed:where=backward,seconds=0.1,rank=1", steps=20, validate="off")
    first, second = record.per_worker
    assert (second.last_share or 0) > 0.9
    assert second.late_seconds == pytest.approx(0.1, rel=0.25)
    assert first.phases.wait == pytest.approx(0.1, rel=0.25)
    assert second.phases.backward > first.phases.backward + 0.075
    assert second.phases.wait < 0.02
    for worker in record.per_worker:
        assert worker.phases.total == pytest.approx(worker.step_seconds, rel=0.01)
        assert worker.utilisation_percent is not None
        assert 0 < worker.utilisation_percent < 80  # a sleeper needs no processor
    assert [row.device for row in record.utilisation] == [w.device for w in record.per_worker]
    for row in record.utilisation:
        assert row.stolen_percent is not None
        assert row.busy_percent is not None
        assert 0 <= row.stolen_percent <= row.busy_percent


def test_a_record_has_the_buckets_and_gradients_that_a_projection_needs(tmp_path: Path) -> None:
    record = run(tmp_path, "faulty:faulty:pause=0.03", strategy="allreduce:bucket=1B", steps=24, validate="off")
    assert [g.name for g in record.gradients] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert sum(g.bytes for g in record.gradients) == sum(b.bytes for b in record.buckets)
    assert sum(g.bytes for g in record.gradients) == record.workload.gradient_bytes
    for bucket in record.buckets:
        assert 0 < bucket.ready_seconds <= bucket.start_seconds <= bucket.end_seconds
    assert record.overlap is not None
    assert record.overlap.exposed == pytest.approx(record.phases.exchange + record.phases.wait)
    assert record.overlap.hidden >= 0
    for worker in sidecar.load(tmp_path):
        begin, end = (moments[worker.bucket_step.astype(int)] for moments in (worker.begin, worker.end))
        assert (worker.bucket_ready >= begin).all()
        assert (worker.bucket_end <= end).all()


def test_a_worker_held_back_by_a_staleness_bound_waits(tmp_path: Path) -> None:
    workload = "faulty:faulty:pause=0.005,slow_rank=1,slow=0.02"
    record = run(tmp_path, workload, strategy="ps:mode=stale,bound=1", steps=60, validate="off")
    quick, slow = record.per_worker
    assert quick.phases.wait > 0.01
    assert slow.phases.wait < 0.5 * quick.phases.wait
    assert quick.last_share is None
    assert (record.servers[0].utilisation_percent or 0) > 0


def narrow_after(worker: WorkerSeries, percent: float) -> float:
    """Seconds after which a worker's steps show its rate to ± `percent`."""
    stopping = Stopping(percent)
    for end, seconds, units in zip(worker.end, worker.end - worker.begin, worker.units, strict=True):
        stopping.step(seconds, units)
        if stopping.narrow_enough():
            return float(end - worker.begin[0])
    return math.inf


def test_a_run_ends_by_itself_once_its_rate_is_known(tmp_path: Path) -> None:
    workload = "slowed:slowed"
    ended = run(tmp_path / "a", workload, steps=None, seconds=60.0, until_percent=50.0, validate="off")
    decided = sidecar.load(tmp_path / "a")[0]  # rank 0 decides, from its own steps
    if ended.wall_seconds.training < 55:
        assert narrow_after(decided, percent=60) < math.inf, "it ended before its rate was known"
    else:  # where others take the cores away again and again, the rate is not known, or late
        assert narrow_after(decided, percent=40) > 35, "it went on although its rate was known"
    assert not ended.failures
    ceiling = run(tmp_path / "b", workload, steps=12, until_percent=0.001, validate="off")
    assert len(ceiling.learning.loss) == 12
    assert any("requested within ± 0.001 %" in text for text in ceiling.warnings)


def test_the_originals_way_times_exactly_the_steps_it_was_told(tmp_path: Path) -> None:
    record = run(tmp_path, steps=None, timing="fixed:warmup=4,steps=7", validate="off")
    assert (record.warmup_steps, record.steps_timed, len(record.learning.loss)) == (4, 7, 11)
    assert record.samples_timed == 7 * 16
    assert record.throughput.low is record.throughput.high is None
    assert record.spec.timing == "fixed:warmup=4,steps=7"
    assert any("older benchmarks" in text for text in record.warnings)


@pytest.mark.parametrize("strategy", ["independent", "ps:mode=async"])
def test_a_quick_worker_that_waits_for_a_slow_one_at_the_end_does_not_hang(strategy: str, tmp_path: Path) -> None:
    workload = "faulty:faulty:pause=0.001,slow_rank=1,slow=0.25"
    record = run(tmp_path, workload, strategy=strategy, steps=16, timeout=1.0)  # with a validation at the end
    assert not record.failures
    assert record.learning.val_loss is not None


def test_without_a_barrier_a_run_ends_by_itself_when_everybody_is_known_well_enough(tmp_path: Path) -> None:
    workload = "faulty:faulty:pause=0.005,slow_rank=1,slow=0.01"
    record = run(
        tmp_path, workload, strategy="independent", steps=None, seconds=45.0, until_percent=60.0, validate="off"
    )
    workers = sidecar.load(tmp_path)
    if record.wall_seconds.training < 40:
        assert all(narrow_after(worker, percent=70) < math.inf for worker in workers)
        ends = [worker.end[-1] for worker in workers]
        assert max(ends) - min(ends) < 5  # nobody stopped long before the others
    else:
        assert max(narrow_after(worker, percent=50) for worker in workers) > 25, "it went on although all were known"
    assert not record.failures


def test_nothing_is_said_to_be_hidden_where_nothing_was_sent(tmp_path: Path) -> None:
    assert run(tmp_path, workers=1, strategy="allreduce").overlap is None
