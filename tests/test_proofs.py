"""Long proofs, run by `make prove`: minutes to half an hour each."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan
from paceline.record import Record
from paceline.settings import read_toml
from paceline.spec import SETTINGS, RunSpec

STUDIES = Path(__file__).parent.parent / "studies"

pytestmark = [pytest.mark.prove, pytest.mark.timeout(7200)]


def run(out: Path, **settings: Any) -> Record:
    return LocalEngine().run(plan(RunSpec.from_dict(settings)), out, NoDisplay())


def test_the_vae_reaches_the_published_validation_loss_on_mnist(real_data: Path, tmp_path: Path) -> None:
    record = run(tmp_path, **read_toml(STUDIES / "vae-mnist.toml", SETTINGS))
    assert record.learning.samples_seen == 4 * 60_000
    assert record.learning.val_loss == pytest.approx(141.7, abs=3)


def test_async_and_stale_reach_the_synchronous_loss_at_equal_samples(tmp_path: Path) -> None:
    data = "mnist" if os.environ.get("PACELINE_DATA") else "generated"
    records = {
        mode: run(tmp_path / mode, workload=f"vae:data={data}", workers=2, strategy=f"ps:mode={mode}", epochs=1)
        for mode in ("sync", "async", "stale")
    }
    synchronous = records["sync"].learning.val_loss
    assert synchronous is not None
    for mode in ("async", "stale"):
        learning, report = records[mode].learning, records[mode].strategy_report
        print(f"{mode}: val_loss {learning.val_loss:.2f}, sync {synchronous:.2f}, {report}")
        assert learning.samples_seen == records["sync"].learning.samples_seen == 60_000
        assert learning.val_loss is not None
        assert learning.val_loss <= 1.05 * synchronous
        assert (report["mean_staleness"] or 0) > 0


@pytest.mark.parametrize("load", [[], ["--load"]])
def test_explain_is_right_about_injected_faults(load: list[str], tmp_path: Path) -> None:
    command = [sys.executable, str(STUDIES.parent / "benchmarks" / "explain_scorecard.py")]
    answer = subprocess.run([*command, *load, "--page", str(tmp_path / "page.md")], text=True, timeout=7200)
    assert answer.returncode == 0
