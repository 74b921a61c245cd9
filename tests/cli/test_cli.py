"""The command line as a user meets it: answers, exit codes, refusals, interruption."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from paceline.migrations import SCHEMA_VERSION

TESTS = Path(__file__).parent.parent
SMALL = ["faulty:faulty", "--workers", "2", "--strategy", "allreduce"]


def environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **variables}


def paceline(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=90,
        env=environment(**variables),
    )


def test_train_prints_a_summary_and_leaves_a_record(tmp_path: Path) -> None:
    finished = paceline("train", *SMALL, "--steps", "30", cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    for word in ("throughput", "points/s", "validation", "lr 0.05 (rule none)", "gradients by mean", "a line"):
        assert word in finished.stdout
    (record,) = (tmp_path / "runs").glob("*/record.json")
    assert json.loads(record.read_text())["schema_version"] == SCHEMA_VERSION


def test_json_is_one_object_on_stdout_and_words_go_to_stderr(tmp_path: Path) -> None:
    finished = paceline("train", *SMALL, "--steps", "5", "--json", "--out", "run", cwd=tmp_path)
    assert json.loads(finished.stdout) == json.loads((tmp_path / "run" / "record.json").read_text())
    assert "starting workers" in finished.stderr


def test_flags_win_over_a_settings_file(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('workload = "faulty:faulty"\nsteps = 4\nbatch = 6\n')
    finished = paceline("train", "--spec", "run.toml", "--batch", "3", "--json", "--out", "run", cwd=tmp_path)
    spec = json.loads(finished.stdout)["spec"]
    assert (spec["steps"], spec["batch"], spec["workload"]) == (4, 3, "faulty:faulty")


WRONG = {
    "unknown workload": (["train", "vea", "--steps", "1"], "Did you mean 'vae'?"),
    "unknown strategy": (["train", "vae", "--steps", "1", "--strategy", "alreduce"], "Did you mean 'allreduce'?"),
    "unknown option": (["train", "vae:chanels=3", "--steps", "1"], "Did you mean 'channels'?"),
    "unknown feed": (["train", "vae", "--steps", "1", "--feed", "data"], "Valid: dataset, synthetic"),
    "two transports": (["train", "vae", "--steps", "1", "--strategy", "ps+allreduce"], "are both a transport"),
    "negative count": (["train", "vae", "--steps", "-1"], "--steps -1 is not valid: it must be at least 1"),
    "words for a count": (["train", "vae", "--steps", "1", "--workers", "two"], "--workers two is not valid"),
    "a part of a sample": (
        ["train", "vae", "--steps", "1", "--batch", "1.5"],
        "--batch 1.5 is not valid: it must be a",
    ),
    "no workers": (["train", "vae", "--steps", "1", "--workers", "0"], "--workers 0 is not valid: it must be at least"),
    "no number": (["train", "vae", "--steps", "1", "--lr", "nan"], "--lr nan is not valid: it must be above 0"),
    "neither on nor off": (["train", "vae", "--steps", "1", "--mps", "maybe"], "value of --mps. Valid: on, off"),
    "no time": (["train", "vae", "--seconds", "soon"], "--seconds 'soon' is not a time: write it like 90s"),
    "repeats in words": (
        ["study", "vae", "--repeats", "two"],
        "--repeats two is not valid: it must be a",
    ),
    "a wrong scaling": (["study", "vae", "--scaling", "week"], "Did you mean 'weak'?"),
    "unknown rule": (["train", "vae", "--steps", "1", "--lr-rule", "cubic"], "Valid: none, linear, sqrt"),
    "a missing settings file": (["train", "--spec", "missing.toml"], "missing.toml cannot be read"),
    "a settings file with a wrong type": (["train", "--spec", "two.toml"], "--workers 'two' is not valid"),
    "no workload": (["train", "--steps", "1"], "Say what to train: paceline train WORKLOAD"),
    "words for an axis": (["study", "vae", "--steps", "1", "--workers", "1,two"], "--workers two is not valid"),
    "an unknown word on an axis": (["study", "vae", "--steps", "1", "--lr-rule", "cubic"], "Valid: none, linear"),
    "no length": (["train", "vae"], "one of --steps, --epochs and --seconds"),
    "two lengths": (["train", "vae", "--steps", "1", "--epochs", "1"], "one of --steps, --epochs and --seconds"),
    "workers that do not fill devices": (
        ["train", "vae", "--steps", "1", "--workers", "3", "--workers-per-device", "2"],
        "use a multiple of 2",
    ),
    "too many workers": (["train", "vae", "--steps", "1", "--workers", "4096"], "add --workers-per-device"),
    "double scaling": (
        ["train", "vae", "--steps", "1", "--strategy", "allreduce:reduce=sum", "--lr-rule", "linear"],
        "scales twice",
    ),
    "clipping without a common gradient": (
        ["train", "vae", "--steps", "1", "--strategy", "ps:mode=async", "--clip-norm", "1"],
        "--clip-norm with ps:mode=async",
    ),
    "a batch larger than the data": (["train", "faulty:faulty", "--steps", "1", "--batch", "97"], "at most 96"),
    "an out folder that cannot be": (["train", "vae", "--steps", "1", "--out", "/proc/nowhere"], "choose another"),
    "no such module": (["train", "nowhere:nothing", "--steps", "1"], "no module 'nowhere'"),
    "no such function": (["train", "faulty:nothing", "--steps", "1"], "no function 'nothing'"),
    "not a checkpoint": (["train", "faulty:faulty", "--steps", "1", "--resume", "."], "holds no checkpoint"),
    "a settings file that is not TOML": (["train", "--spec", "bad.toml"], "is not TOML"),
    "epochs of what has no end": (
        ["train", "vae", "--epochs", "1", "--feed", "synthetic:at=host"],
        "use --steps or --seconds",
    ),
    "a name that is too long": (["train", "faulty:faulty", "--steps", "1", "--out", "x" * 300], "choose another"),
    "a huge seed": (
        ["train", "vae", "--steps", "1", "--seed", "99999999999999999999"],
        "it must be from 0 to 9,223,372",
    ),
    "something that is no function": (["train", "os:path", "--steps", "1"], "is not a function"),
    "a thousand servers": (["train", "vae", "--steps", "1", "--strategy", "ps:servers=1000"], "from 1 to 64"),
    "a rate scaled for replicas that train alone": (
        ["train", "vae", "--steps", "1", "--strategy", "independent", "--lr-rule", "linear"],
        "Use --lr-rule none",
    ),
    "a GPU where there is none": (["train", "vae", "--steps", "1", "--device", "cuda"], "Use --device cpu"),
    "truncated data": (["train", "vae:data=mnist", "--steps", "1"], "train-images"),
    "missing data": (["train", "pilotnet:data=real", "--steps", "1"], "PACELINE_DATA"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_request_exits_2_with_the_remedy_and_changes_nothing(what: str, tmp_path: Path) -> None:
    arguments, remedy = WRONG[what]
    (tmp_path / "bad.toml").write_text("steps = = 3")
    (tmp_path / "two.toml").write_text('workload = "vae"\nsteps = 1\nworkers = "two"')
    mnist = tmp_path / "data" / "mnist"
    mnist.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (mnist / f"{name}-ubyte").write_bytes(b"\x00\x00\x08\x03\x00\x00")
    before = sorted(tmp_path.rglob("*"))
    finished = paceline(*arguments, cwd=tmp_path, PACELINE_DATA=str(tmp_path / "data"))
    said = [line for line in finished.stderr.splitlines() if "starting workers" not in line]
    assert finished.returncode == 2, finished.stderr
    assert remedy in " ".join(said)
    assert len(said) <= 2
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""
    assert [p for p in sorted(tmp_path.rglob("*")) if p.name not in ("runs", "__pycache__")] == before


def test_a_record_is_never_overwritten(tmp_path: Path) -> None:
    first = paceline("train", "faulty:faulty", "--steps", "3", "--out", "run", cwd=tmp_path)
    assert first.returncode == 0
    content = (tmp_path / "run" / "record.json").read_bytes()
    second = paceline("train", "faulty:faulty", "--steps", "3", "--out", "run", cwd=tmp_path)
    assert second.returncode == 2
    assert "already holds a record" in second.stderr
    assert (tmp_path / "run" / "record.json").read_bytes() == content


def test_another_runs_checkpoints_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints" / "step-00000020").mkdir(parents=True)
    finished = paceline("train", "faulty:faulty", "--steps", "3", "--out", "run", cwd=tmp_path)
    assert finished.returncode == 2
    assert "another run's checkpoints" in finished.stderr


def test_a_length_on_the_command_line_takes_the_place_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('workload = "faulty:faulty"\nepochs = 400\ntimeout = "90s"\n')
    finished = paceline("train", "--spec", "run.toml", "--steps", "2", "--json", "--out", "run", cwd=tmp_path)
    spec = json.loads(finished.stdout)["spec"]
    assert (spec["steps"], spec["epochs"], spec["timeout"]) == (2, None, 90.0)


def test_ctrl_c_in_start_up_says_so_and_exits_1(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "train", *SMALL, "--steps", "1000000", "--out", "run"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    assert "starting workers" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "Stopped by the user" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_ctrl_c_does_not_wait_for_a_validation(tmp_path: Path) -> None:
    arguments = ["--workers", "2", "--steps", "1000000", "--checkpoint-every", "1000000"]
    process = started(tmp_path, *arguments, workload="faulty:faulty:pause=0.02,validation_pause=1.5")
    time.sleep(2)  # by now it is in one of its validations, one after every epoch of six steps
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=40)
    assert process.returncode == 1
    assert (tmp_path / "run" / "record.json").exists()
    assert list((tmp_path / "run" / "checkpoints").iterdir())


def test_a_failed_run_exits_1_naming_rank_cause_and_last_lines(tmp_path: Path) -> None:
    finished = paceline(
        "train", "faulty:faulty:kind=raise,rank=1,step=2", "--workers", "2", "--steps", "9", cwd=tmp_path
    )
    assert finished.returncode == 1
    assert "Worker 1 failed: RuntimeError: the road ends here" in finished.stderr
    assert "Last lines of worker 1" in finished.stderr
    assert not list(tmp_path.glob("runs/*"))


def started(
    tmp_path: Path, *arguments: str, workload: str = "faulty:faulty:pause=0.02", own_group: bool = False
) -> "subprocess.Popen[str]":
    """A run that is under way: it has told of a loss."""
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "train", workload, *arguments, "--out", "run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=own_group,
    )
    assert process.stderr is not None
    until = time.monotonic() + 60
    while " loss " not in process.stderr.readline():  # of a step, or of a validation
        if time.monotonic() > until:
            process.terminate()
            process.communicate(timeout=30)
            raise AssertionError("no step within a minute")
    return process


@pytest.mark.parametrize("strategy", ["allreduce", "ps", "independent"])
def test_ctrl_c_ends_in_order_and_writes_the_record(strategy: str, tmp_path: Path) -> None:
    process = started(tmp_path, "--workers", "2", "--strategy", strategy, "--steps", "1000000")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=40)
    assert process.returncode == 1
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["failures"] == ["Stopped by the user before the end."]
    assert record["steps_timed"] > 0
    assert "Stopped by the user" in out


def test_a_killed_parent_takes_everything_along(tmp_path: Path) -> None:
    process = started(tmp_path, "--workers", "2", "--strategy", "ps:servers=2", "--steps", "1000000")
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 5
    process.kill()
    process.communicate(timeout=10)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    for left in Path(os.environ["TMPDIR"]).glob("pymp-*"):  # multiprocessing's own, which a killed process leaves
        shutil.rmtree(left)


@pytest.mark.parametrize("verb", ["workloads", "strategies", "feeds", "doctor"])
def test_the_catalogues_and_the_doctor_answer(verb: str, tmp_path: Path) -> None:
    finished = paceline(verb, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    expected = {
        "workloads": "93,593,600",
        "strategies": "Which parts combine",
        "feeds": "synthetic",
        "doctor": "backend gloo",
    }
    assert expected[verb] in finished.stdout


def test_help_needs_no_torch(tmp_path: Path) -> None:
    code = """
import sys
from paceline.cli.main import app
sys.argv[1:] = ["train", "--help"]
try:
    app()
finally:
    print("torch" in sys.modules)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Examples:" in finished.stdout
    assert finished.stdout.strip().endswith("False")


def test_a_signal_to_the_whole_process_group_ends_a_run_in_order(tmp_path: Path) -> None:
    arguments = ["--workers", "2", "--strategy", "independent", "--steps", "1000000", "--validate", "off"]
    process = started(tmp_path, *arguments, workload="faulty:faulty:pause=0.01", own_group=True)
    process.send_signal(signal.SIGTERM)  # as `timeout` does: to the process, and to its group
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=40)
    assert process.returncode == 1
    (record,) = tmp_path.rglob("record.json")
    assert json.loads(record.read_text())["failures"] == ["Stopped by the user before the end."]


def test_a_full_disk_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [sys.executable, "-m", "paceline", "workloads"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert told.returncode == 1
    assert told.stderr == "paceline: No space left on device: make room for the output, and run again.\n"
