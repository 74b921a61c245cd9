"""Every command and flag that docs/coming-from.md tells a newcomer to type is understood and can be planned."""

import re
import shlex
from pathlib import Path

import pytest
import typer.core
from typer.testing import CliRunner

import paceline.cli.train
from paceline.cli.main import app
from paceline.cli.verbs import VERBS, load
from paceline.devices import cpu, cuda
from paceline.engines.plan import Plan, plan
from paceline.errors import DeviceError, PacelineError
from paceline.feeds.catalogue import FEEDS
from paceline.feeds.catalogue import check as check_feed
from paceline.spec import RunSpec
from paceline.traffic.catalogue import MEMBERS
from paceline.traffic.catalogue import check as check_strategy
from paceline.workloads.catalogue import WORKLOADS
from paceline.workloads.catalogue import check as check_workload

TEXT = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
TRAIN = "paceline train "
LENGTHS = ("--steps", "--epochs", "--seconds", "--timing fixed")


def commands() -> list[str]:
    """Complete ones, in console blocks or in backticks anywhere."""
    blocks = re.findall(r"^```console\n(.*?)^```$", TEXT, flags=re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith(TRAIN) for line in lines), "a console block holds one complete command on each line"
    return lines + [code for code in re.findall(r"`([^`\n]+)`", PROSE) if code.startswith(TRAIN)]


def rows(heading: str = "") -> list[list[str]]:
    """The cells of all table rows below headings that contain `heading`."""
    found, inside = [], False
    for line in PROSE.splitlines():
        if line.startswith("#"):
            inside = heading in line
        elif inside and line.startswith("| "):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return [row for row in found if row[0] != "option there"]


def told() -> list[str]:
    """Whatever stands in backticks in the column that says what to type here."""
    return sorted({code for row in rows() for code in re.findall(r"`([^`]+)`", row[-1])})


FLAGS = [code for code in told() if code.startswith("--")]
PHRASES = [code for code in FLAGS if " " in code]
SPECS = [code for code in told() if re.match(r"[\w-]+:\w+=", code)]


def completed(phrase: str) -> str:
    """A command that the flags of a table cell could stand in."""
    length = "" if any(name in phrase for name in LENGTHS) else " --steps 1"
    return f"{TRAIN}vae {phrase}{length}"


def needs_gpus(command: str) -> bool:
    return "--device cuda" in command


EVERYTHING = [*commands(), *map(completed, PHRASES)]


def spec_of(command: str, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """What the command line makes of a command; nothing is planned or started."""
    understood: list[RunSpec] = []
    monkeypatch.setattr(paceline.cli.train, "run", lambda spec, out, **_: understood.append(spec))
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, f"{command}\n{result.output}{result.exception or ''}"
    return understood[0]


def planned(command: str, monkeypatch: pytest.MonkeyPatch, *, cores: int = 2, gpus: int = 0) -> Plan:
    """The plan on a machine with so many cores and GPUs."""
    monkeypatch.setattr(cpu, "available_cores", lambda: tuple(range(cores)))
    monkeypatch.setattr(cuda, "available_gpus", lambda: gpus)
    return plan(spec_of(command, monkeypatch))


@pytest.mark.parametrize("command", [c for c in EVERYTHING if not needs_gpus(c)])
def test_a_command_can_be_planned_on_two_cores(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = planned(command, monkeypatch)
    assert ready.placement.kind == "cpu"
    assert len(ready.placement.workers) == ready.spec.workers


README_TOUR = re.findall(r"^paceline train .*$", (Path(__file__).parent.parent / "README.md").read_text(), flags=re.M)


@pytest.mark.parametrize("command", README_TOUR)
def test_the_readmes_tour_can_be_planned_on_two_cores(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(README_TOUR) >= 5
    assert planned(command, monkeypatch).spec.workers >= 1


@pytest.mark.parametrize("command", [c for c in EVERYTHING if needs_gpus(c)])
def test_a_command_for_gpus_is_refused_without_them_and_planned_with_eight(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match="shows no NVIDIA GPU"):
        planned(command, monkeypatch)
    ready = planned(command, monkeypatch, gpus=8)
    assert ready.placement.kind == "cuda"
    assert len(ready.placement.workers) == ready.spec.workers


@pytest.mark.parametrize("flag", [code for code in FLAGS if " " not in code])
def test_a_flag_named_alone_exists(flag: str) -> None:
    assert flag in train_options()


@pytest.mark.parametrize("spec", SPECS)
def test_a_name_with_options_is_in_a_catalogue(spec: str) -> None:
    name = re.split("[:+]", spec)[0]
    (check,) = [
        check
        for catalogue, check in ((WORKLOADS, check_workload), (MEMBERS, check_strategy), (FEEDS, check_feed))
        if name in catalogue
    ]
    assert re.split("[:+]", check(spec))[0] == name


ORIGINALS = {
    "000": "np nranks_per_gpu MPS nodes epochs tfqueue tfdataset",
    "001": "np batch epochs driving_log.csv projections",
    "002": "CUDA_VISIBLE_DEVICES batch_size encoder_type dynamic_rnn direction parameter_server replicated "
    "independent_replica gradient_repacking all_reduce_spec agg_small_grads_max_bytes agg_small_grads_max_group "
    "prefetch_data_to_device use_synthetic_data src_max_len",
    "tensorpack's": "gpu cpu python parameter_server replicated",
    "### tf_cnn_benchmarks": "num_gpus batch_size model parameter_server replicated independent "
    "local_parameter_device=cpu local_parameter_device=gpu num_batches num_warmup_batches optimizer momentum "
    "weight_decay init_learning_rate data_name data_dir use_fp16 all_reduce_spec gradient_repacking "
    "agg_small_grads_max_bytes ps_hosts cross_replica_sync",
    "004": "ar ps num-worker num-ps resnet18 resnet101 BERT-base nodes ideal",
}


@pytest.mark.parametrize(("heading", "names"), ORIGINALS.items())
def test_every_option_of_an_original_has_a_row(heading: str, names: str) -> None:
    there = [row[0] for row in rows(heading)]
    missing = [name for name in names.split() if not any(re.search(rf"\b{name}\b", cell) for cell in there)]
    assert not missing


def test_every_row_says_what_to_do_here() -> None:
    assert len(rows()) > 100
    for row in rows():
        assert len(row) == 3, f"cells of {row}"
        assert row[-1], f"nothing to do for {row[0]}"


def test_what_is_said_to_be_missing_is_missing() -> None:
    section = TEXT.partition("## What none of these commands can do yet")[2]
    missing = re.findall(r"`([^`]+)`", section)
    assert missing
    present = {f"paceline {verb}" for verb in verbs()} | train_options()
    arrived = [name for name in missing if name in present]
    assert not arrived, f"{arrived} came to be: bring docs/coming-from.md up to date with it"


def test_a_flag_that_does_not_exist_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="No such option"):
        spec_of(f"{TRAIN}vae --steps 1 --invented 3", monkeypatch)
    with pytest.raises(PacelineError, match="is not a known strategy"):
        planned(f"{TRAIN}vae --steps 1 --strategy invented", monkeypatch)


def verbs() -> dict[str, typer.core.TyperCommand]:
    loaded = {name: load(name) for name in VERBS}
    return {name: command for name, command in loaded.items() if isinstance(command, typer.core.TyperCommand)}


def train_options() -> set[str]:
    return {option for parameter in verbs()["train"].params for option in parameter.opts}
