"""Every ready study as its command runs it, shortened: with real data, with generated data, and its page."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from testbed.hosts_here import need_root_and_tools

from paceline.record import Record
from paceline.references import load
from paceline.studies import catalogue

# What shortens them: flags of the command itself, which leave the study's workloads and strategies as they are.
SHORT: dict[str, Sequence[str]] = {
    "demo": ["--seconds", "0.2s", "--repeats", "1", "--workers", "2"],
    "seed-000": ["--steps", "2", "--feed", "dataset"],
    "seed-001": ["--steps", "2", "--workers", "2"],
    "seed-002": ["--steps", "2", "--workers", "2", "--variant", "ps fused", "--variant", "allreduce 4 packs"],
    "seed-003": ["--steps", "2", "--workers", "2", "--feed", "synthetic:at=python,prefetch=2"],
    "seed-004": ["--steps", "2", "--workers", "2", "--variant", "resnet18", "--variant", "bert-base"],
    "vae-mnist": ["--steps", "2", "--validate", "off"],
}
IN_A_TESTBED: dict[str, tuple[str, Sequence[str]]] = {
    "seed-004-1gbps": ("1Gbps", ["--workers", "2", "--variant", "resnet18", "--strategy", "ps:servers=3"]),
    "testbed-projection": ("100Mbps", ["--workers", "2", "--strategy", "allreduce"]),
    "seed-004-100gbps": ("100Gbps", ["--workers", "2", "--nodes", "2", "--variant", "resnet18"]),
}
DATA_FREE = ("seed-003", "seed-004", *IN_A_TESTBED)  # images and sequences that only a generator makes


def paceline(*arguments: str, cwd: Path, data: Path | None) -> "subprocess.CompletedProcess[str]":
    variables = {name: value for name, value in os.environ.items() if name != "PACELINE_DATA"}
    if data is not None:
        variables["PACELINE_DATA"] = str(data)
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=220,
        env=variables,
    )


def rows_of(finished: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    assert finished.returncode == 0, finished.stderr
    rows: list[dict[str, Any]] = json.loads(finished.stdout)["rows"]
    assert rows
    assert {row["state"] for row in rows} == {"done"}
    assert all({"value", "low", "high"} <= row["throughput"].keys() for row in rows)  # a few steps: it is not known
    return rows


def sources(rows: Sequence[dict[str, Any]], folder: Path) -> set[tuple[bool, str]]:
    records = [Record.load(folder / path) for row in rows for path in row["records"]]
    assert all(record.samples_timed > 0 for record in records)
    return {(record.workload.data.generated, record.workload.data.source) for record in records}


def test_every_ready_study_is_tried_here() -> None:
    assert {*SHORT, *IN_A_TESTBED} == set(catalogue.ready())


@pytest.mark.parametrize("name", [name for name in SHORT if name not in DATA_FREE])
def test_a_ready_study_runs_with_real_data(name: str, tmp_path: Path, real_data: Path) -> None:
    rows = rows_of(paceline("study", name, *SHORT[name], "--json", "--out", "out", cwd=tmp_path, data=real_data))
    assert any(str(real_data) in source for generated, source in sources(rows, tmp_path) if not generated)
    if name in ("seed-000", "seed-001"):
        _has_the_columns_of_the_original(name, rows, tmp_path)


@pytest.mark.parametrize("name", [name for name in SHORT if name != "vae-mnist"])
def test_a_ready_study_runs_with_generated_data(name: str, tmp_path: Path) -> None:
    rows = rows_of(paceline("study", name, *SHORT[name], "--json", "--out", "out", cwd=tmp_path, data=None))
    assert all(generated or "fashion" in source for generated, source in sources(rows, tmp_path))
    if name in ("seed-000", "seed-001"):
        _has_the_columns_of_the_original(name, rows, tmp_path)


def _has_the_columns_of_the_original(name: str, rows: Sequence[dict[str, Any]], folder: Path) -> None:
    figure = "val_loss" if name == "seed-000" else "angle_error"
    assert all(row[figure] > 0 for row in rows)
    written = paceline("report", "out", "--style", name, "--against", name, "--out", "page.html", cwd=folder, data=None)
    assert written.returncode == 0, written.stderr
    heads = re.findall("<thead><tr>(.*?)</tr></thead>", (folder / "page.html").read_text())
    headings = [tuple(re.findall('<button type="button">(.*?)</button>', head)) for head in heads]
    assert tuple(column.heading for column in load(name).columns) in headings


def test_the_study_of_mnist_is_refused_without_mnist(tmp_path: Path) -> None:
    for more in ([], ["--dry-run"]):
        refused = paceline("study", "vae-mnist", *SHORT["vae-mnist"], *more, cwd=tmp_path, data=None)
        assert refused.returncode == 2
        assert "There is no MNIST in PACELINE_DATA, which is not set" in refused.stderr


def test_a_dry_run_says_that_there_is_too_little_data(tmp_path: Path, real_data: Path) -> None:
    content = catalogue.ready()["seed-001"].read_text().replace("samples=768", "samples=1024")
    (tmp_path / "greedy.toml").write_text(content)
    refused = paceline("study", "greedy.toml", "--dry-run", cwd=tmp_path, data=real_data)
    assert refused.returncode == 2
    assert "samples=1024 is too many" in refused.stderr
    assert "has 819" in refused.stderr


@pytest.mark.parametrize("name", IN_A_TESTBED)
def test_a_ready_study_runs_in_a_testbed(name: str, tmp_path: Path) -> None:
    need_root_and_tools()
    bandwidth, flags = IN_A_TESTBED[name]
    file = tmp_path / f"{name}.toml"
    text = catalogue.ready()[name].read_text()
    file.write_text(re.sub(r"^slow_motion = .*$", "slow_motion = 0.5", text, flags=re.MULTILINE))  # or it takes minutes
    assert tomllib.loads(file.read_text())["nodes"] > 1
    testbed = ["testbed", "--nodes", "3", "--bandwidth", bandwidth, "--"]
    flags = [*flags, "--timing", "fixed:warmup=1,steps=1", "--json", "--out", "out"]
    rows = rows_of(paceline(*testbed, "study", file.name, *flags, cwd=tmp_path, data=None))
    assert any(row["nodes"] == 2 for row in rows)
    assert all(row["throughput"]["value"] > 0 for row in rows)
