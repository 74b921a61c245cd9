import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from explain.situations import USUAL, Situation, alone, write

TABLE = "workers,throughput\n4,352\n1,100\n2,190\n"


def paceline(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


def projected(*arguments: object) -> dict[str, Any]:
    finished = paceline("project", *arguments, "--json")
    assert finished.returncode == 0, finished.stderr
    content: dict[str, Any] = json.loads(finished.stdout)
    return content


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(TABLE)
    return path


def test_json_has_exactly_what_is_promised(file: Path) -> None:
    content = projected(file, "--workers", "1..8")
    assert list(content) == [
        *("law", "curve", "knee_workers", "weak_doublings", "validated_on", "warnings", "columns"),
    ]
    assert [point["workers"] for point in content["curve"]] == list(range(1, 9))
    names = ["workers", "nodes", "batch", "throughput", "step_seconds", "low80", "high80", "low95", "high95", "limit"]
    assert all(list(point) == names for point in content["curve"])
    last = content["curve"][-1]
    assert last["nodes"] is last["batch"] is last["step_seconds"] is None
    assert 500 < last["low80"] < last["throughput"] < last["high80"] < 800


def test_points_of_a_file_are_answered_in_its_order(tmp_path: Path) -> None:
    table, at = tmp_path / "mine.csv", tmp_path / "at.csv"
    table.write_text("workers,nodes,batch,step_seconds\n1,1,32,0.1\n4,1,32,0.11\n4,1,64,0.2\n8,2,32,0.14\n")
    at.write_text("# as a table may be written\nGPUs;Nodes;batch\n16;4;32\n8;1;64\n16;;\n")
    curve = projected(table, "--at", at)["curve"]
    assert [(p["workers"], p["nodes"], p["batch"]) for p in curve] == [(16, 4, 32), (8, 1, 64), (16, 4, 32)]
    assert curve[0] == curve[2]
    assert curve[0]["throughput"] == pytest.approx(16 * 32 / curve[0]["step_seconds"])


def test_efficiency_is_of_one_worker_even_where_one_is_not_asked_for(file: Path) -> None:
    worth = [projected(file, "--workers", n, "--efficiency", "0.8")["workers_worth_having"] for n in ("1..8", "4..8")]
    assert worth[0] == worth[1] >= 4
    content = projected(file, "--workers", "4,8", "--efficiency", "0.8")
    assert [point["workers"] for point in content["curve"]] == [4, 8]


@pytest.mark.parametrize(("name", "begins"), [("curve.svg", b"<svg"), ("curve.png", b"\x89PNG")])
def test_a_chart_is_drawn_on_request(file: Path, name: str, begins: bytes) -> None:
    picture = file.with_name(name)
    projected(file, "--workers", "1..16", "--chart", picture)
    assert picture.read_bytes().startswith(begins)


def test_words_come_first_then_the_table(file: Path) -> None:
    finished = paceline("project", file, "--workers", "8,16", "--efficiency", "0.8", "--price", "2")
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert lines[0].startswith("mine: 16 workers would reach ")
    assert "At an efficiency of 80% or better" in finished.stdout
    assert "cost per million" in finished.stdout
    assert "…" not in finished.stdout


def test_time_to_a_target_is_added(tmp_path: Path) -> None:
    table, runs = tmp_path / "mine.csv", tmp_path / "runs.csv"
    table.write_text("workers,batch,images/s\n1,64,219\n2,64,422\n4,64,852\n")
    runs.write_text("global_batch,samples\n64,1000000\n256,1100000\n1024,1700000\n")
    content = projected(table, "--workers", "4,8", "--target", runs)
    times = content["time_to_target"]
    assert [time["workers"] for time in times] == [4, 8]
    assert all(time["low80"] < time["seconds"] < time["high80"] for time in times)


def test_a_reference_is_projected_by_name_and_series() -> None:
    curve = projected("dgx1-p100", "--series", "VGG16", "--workers", "16", "--workers-per-node", "8")["curve"]
    assert curve[0]["nodes"] == 2
    assert 1000 < curve[0]["throughput"] < 2 * 1081


def test_records_without_gradients_are_a_table_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    write(tmp_path / "runs" / "a", alone())
    write(tmp_path / "runs" / "b", Situation(phases={**USUAL, "exchange": 0.020}))
    curve = projected(tmp_path, "--series", "vae allreduce dataset", "--workers", "2,4")["curve"]
    assert curve[0]["throughput"] < curve[1]["throughput"] < 2 * curve[0]["throughput"]
    finished = paceline("project", tmp_path, "--network", "1Gbps")
    assert finished.returncode == 2
    assert "they hold no gradients" in finished.stderr


GRADIENTS = [{"name": str(n), "bytes": 2_000_000, "ready_seconds": 0.02 * (3 - n)} for n in range(3)]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """One worker alone and two of two strategies, with gradients; one exchanges faster than the other."""
    folder = tmp_path / "study"
    sampled: dict[str, Any] = {"gradients": GRADIENTS}
    write(folder / "runs" / "a", alone(record=sampled))
    for strategy, seconds in (("allreduce", 0.020), ("ps", 0.040)):
        phases = {**USUAL, "exchange": seconds}
        write(folder / "runs" / strategy, Situation(phases=phases, spec={"strategy": strategy}, record=sampled))
    (folder / "study.json").write_text("{}")
    return folder


def test_a_study_is_asked_about_its_fastest_strategy_and_the_answer_names_it(study: Path) -> None:
    finished = paceline("project", study, "--workers", "2,4")
    assert finished.stdout.startswith("allreduce: 4 workers would reach ")
    own, other = (projected(study, "--workers", "2", *more)["curve"][0] for more in ((), ("--strategy", "ps")))
    assert own["step_seconds"] == pytest.approx(sum(USUAL.values()) + 0.016, rel=1e-3)
    assert other["step_seconds"] == pytest.approx(sum(USUAL.values()) + 0.036, rel=1e-3)


@pytest.mark.parametrize(
    "more",
    [
        ("--strategy", "bf16+allreduce"),
        ("--strategy", "ps:servers=2,mode=async"),
        ("--batch", "4"),
        ("--device-speed", "2"),
        ("--feed-speed", "2"),
        ("--network", "100Mbps,latency=50us", "--workers-per-node", "1"),
    ],
)
def test_every_what_if_is_answered_from_the_command_line(study: Path, more: tuple[str, ...]) -> None:
    usual, changed = (projected(study, "--workers", "2", *flags)["curve"][0] for flags in ((), more))
    assert changed["step_seconds"] != usual["step_seconds"]
    if more[0] in ("--device-speed", "--feed-speed", "--batch"):
        assert changed["step_seconds"] < usual["step_seconds"]


def test_a_break_even_bandwidth_is_told_in_words_and_as_data(study: Path) -> None:
    flags = ("--workers", "2,8", "--workers-per-node", "1", "--network", "1Gbps,latency=5ms")
    content = projected(study, *flags, "--break-even", "bf16+allreduce")["break_even"]
    assert content["workers"] == 8
    assert content["strategies"] == ["allreduce", "bf16+allreduce"]
    assert {content["faster_below"], content["faster_above"]} <= set(content["strategies"])
    told = paceline("project", study, *flags, "--break-even", "bf16+allreduce").stdout
    assert "With 8 workers bf16+allreduce is " in told


def test_time_to_a_loss_is_read_from_the_runs_themselves(tmp_path: Path) -> None:
    for batch in (8, 16):
        samples = batch * 60
        losses = [10 - n * batch / (20 + batch) for n in range(60)]
        learned = {"loss": losses, "validation": [], "val_loss": None, "updates": 60, "samples_seen": samples}
        learning = {**learned, "global_batch": batch, "lr": 0.1, "lr_rule": "none"}
        write(tmp_path / str(batch), alone(samples=batch, record={"gradients": GRADIENTS, "learning": learning}))
    asked = (tmp_path / "8", tmp_path / "16", "--workers", "1,2", "--to-loss", "5")
    content = projected(*asked)
    assert [time["workers"] for time in content["time_to_target"]] == [1, 2]
    assert content["time_to_target"][0]["seconds"] == pytest.approx(5 * (20 + 16) / 16 * 0.0955, rel=0.25)
    assert "would reach a loss of 5 after" in paceline("project", *asked).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workers", "5000"), "more than 1024 times the measured 2"),
        (("--batch", "10000"), "too far from the measured 8"),
        (("--device-speed", "1000"), "from 0.01 to 100"),
        (("--feed-speed", "0"), "--feed-speed 0 is not valid"),
        (("--strategy", "alreduce"), "allreduce"),
        (("--workers", "4", "--workers-per-node", "2"), "need a network, which is not known"),
        (("--break-even", "ps"), "--network 1Gbps,latency=50us --workers-per-node 1"),
        (("--network", "fast"), "write it like 1Gbps"),
        (("--series", "other"), "choose with --series one of: vae allreduce dataset, vae independent dataset"),
        (("--to-loss", "0.1"), "runs of none reached"),
    ],
)
def test_what_runs_cannot_tell_is_refused_with_a_reason(study: Path, arguments: tuple[str, ...], words: str) -> None:
    finished = paceline("project", study, *arguments)
    assert finished.returncode == 2
    assert words in finished.stderr
    assert len(finished.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("workers,throughput\n1,100\n", (), "needs at least two counts"),
        ("workers,throughput\n1,0\n2,100\n", (), "line 2: throughput '0' is not valid"),
        ("workers,throughput\n1,fast\n2,100\n", (), "line 2: throughput 'fast' is not valid"),
        ("workers,throughput\n1,100\n2,50\n4,1\n8,0.001\n", (), "from what any scaling law predicts"),
        (TABLE, ("--workers", "0..4"), "a range ascends from 1 or more"),
        (TABLE, ("--workers", "many"), "write a range or a list"),
        (TABLE, ("--workers", "5000"), "too far to project from 3 worker counts"),
        (TABLE, ("--workers-per-node", "0"), "must be at least 1"),
        (TABLE, ("--network", "1Gbps"), "it does not say what is exchanged"),
        (TABLE, ("--break-even", "ps"), "it does not say what is exchanged"),
        (TABLE, ("--device-speed", "2"), "it does not say what is exchanged"),
        (TABLE, ("--price", "-1"), "--price -1 is not valid"),
        (TABLE, ("--efficiency", "80"), "a share of the ideal, as in 0.8"),
        (TABLE, ("--chart", "curve.pdf"), "its name must end in .svg or .png"),
        (TABLE, ("--chart", "missing/curve.svg"), "cannot be written"),
        ("workers,step_seconds\n1,1\n2,1.1\n", ("--chart", "curve.svg"), "--chart needs throughput"),
        (TABLE, ("--workers", "8", "--at", "points.csv"), "give one of them"),
        (TABLE, ("--to-loss", "2"), "a table holds no losses"),
        (TABLE, ("--target", "."), "choose one with --to-loss"),
        (TABLE, ("--target", "mine.csv", "--to-loss", "2"), "give only one of the two"),
        (TABLE, ("--workers", "8", "--batch", "nan"), "--batch nan is not valid"),
        (TABLE, ("--at", "missing.csv"), "missing.csv cannot be read"),
        ("strategy,workers,throughput\na,1,1\na,2,2\nb,1,1\nb,2,2\n", (), "choose with --series one of: a, b"),
    ],
)
def test_a_wrong_request_ends_with_2_and_a_remedy(
    tmp_path: Path, text: str, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "mine.csv").write_text(text)
    finished = paceline("project", "mine.csv", *arguments, cwd=tmp_path)
    assert finished.returncode == 2
    assert words in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes\n1\n", "has no points"),
        ("workers\n", "has no points"),
        ("workers\nmany\n", "line 2: workers 'many' is not valid"),
        ("workers,nodes\n2,4\n", "4 nodes for 2 workers"),
        ("workers,batch\n2,-1\n", "batch '-1' is not valid"),
    ],
)
def test_points_that_cannot_be_are_refused_with_their_line(file: Path, text: str, words: str) -> None:
    at = file.with_name("at.csv")
    at.write_text(text)
    finished = paceline("project", file, "--at", at)
    assert finished.returncode == 2
    assert words in finished.stderr


def test_all_points_of_a_file_are_printed_and_a_long_range_says_what_it_leaves_out(file: Path) -> None:
    at = file.with_name("at.csv")
    at.write_text("workers\n" + "".join(f"{n}\n" for n in (64, *range(1, 199, 2))))
    printed = paceline("project", file, "--at", at).stdout
    assert len([line for line in printed.splitlines() if line.startswith("│")]) == 1 + 100
    assert "of 64 points: --json has all" in paceline("project", file).stdout


def test_the_columns_that_were_used_are_named_and_a_doubtful_choice_is_the_users(file: Path) -> None:
    file.write_text("Name,_step,workers,samples_per_second,loss\na,5,1,219,1\nb,6,2,422,1\nc,7,4,852,1\n")
    assert projected(file, "--workers", "8")["columns"] == {
        "used": {"workers": "workers", "samples_per_second": "throughput"},
        "not_used": ["loss", "Name", "_step"],
    }
    printed = paceline("project", file, "--workers", "8").stdout
    assert "Columns used: workers, samples_per_second (throughput). Not used: loss, Name, _step." in printed
    file.write_text("workers,a (img/s),b (words/s)\n1,219,5\n2,422,6\n4,852,90\n")
    assert projected(file, "--columns", "throughput=a (img/s)")["columns"]["not_used"] == ["b (words/s)"]
    file.write_text("workers,images/s,step_seconds\n1,219,1\n2,422,2\n4,852,3\n")
    finished = paceline("project", file)
    assert finished.returncode == 2
    assert "'images/s' and 'step_seconds' contradict each other" in finished.stderr


def test_a_break_even_does_not_depend_on_which_strategy_is_named_first(study: Path) -> None:
    flags = ("--workers", "8", "--workers-per-node", "1", "--network", "1Gbps,latency=5ms")
    first = projected(study, *flags, "--strategy", "allreduce", "--break-even", "ps")["break_even"]
    second = projected(study, *flags, "--strategy", "ps", "--break-even", "allreduce")["break_even"]
    assert first["strategies"] == list(reversed(second["strategies"]))
    assert first["crossings"] == second["crossings"]
    assert (first["bytes_per_second"], first["faster_below"]) == (second["bytes_per_second"], second["faster_below"])


def test_a_larger_count_gets_a_verdict_and_what_to_measure_next(file: Path, study: Path) -> None:
    found = projected(file, "--workers", "4,8", "--worth", "4,16")["worth"]
    assert (found["fewer"], found["more"]) == (4, 16)
    assert found["decision"] in ("worth it", "not worth it", "open")
    assert found["low80"] < found["gain"] < found["high80"]
    assert [each["workers"] for each in found["candidates"]] == [8, 16]
    narrower = [each["narrower"] for each in found["candidates"]]
    assert 0 < narrower[0] < narrower[1] < 1
    printed = paceline("project", file, "--workers", "4", "--worth", "4,16").stdout
    assert "16 instead of 4 workers bring" in printed
    simulated = projected(study, "--workers", "2", "--worth", "2,8")["worth"]
    assert simulated["candidates"][-1]["narrower"] > 0
