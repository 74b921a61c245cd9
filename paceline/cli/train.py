"""`paceline train`: one run, from flags to a record."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import Interrupted, SpecError
from paceline.grammar import choose
from paceline.spec import LENGTHS, RunSpec, read_toml
from paceline.testbed.hosts import Testbed
from paceline.units import parse_seconds

_EXAMPLES = """
Examples:

  paceline train vae --workers 2 --epochs 1

  paceline train resnet18:image=64 --workers 2 --strategy allreduce:wire=bf16 --steps 50

  paceline train nmt:units=64,vocabulary=1000,length=20 --strategy ps:servers=2,mode=async --seconds 30

  paceline train resnet18:image=32 --workers 2 --feed synthetic --until-percent 2

  paceline train --spec studies/vae-mnist.toml --workers 2

  paceline train my_package.my_module:my_workload --workers 2 --steps 100 --json
"""


def train(
    context: typer.Context,
    workload: Annotated[
        str | None, typer.Argument(help="A name from `paceline workloads`, or package.module:function.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--spec", help="Take settings from a TOML file; flags given beside it win.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Worker processes, each with a replica of the model.")] = 1,
    workers_per_device: Annotated[int, typer.Option(help="Workers that share a device.")] = 1,
    cores_per_device: Annotated[int, typer.Option(help="On CPU, cores that make one device.")] = 1,
    nodes: Annotated[
        int | None, typer.Option(help="In a testbed, hosts to divide the workers among (default: all of them).")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="In a testbed, links of this run instead of its own: 100Mbps.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or emulated:2080ti (a published rate, rate=500, or a profile's file).")
    ] = "auto",
    slow_motion: Annotated[
        float, typer.Option(help="How many times slower emulated devices and links are; figures are divided back.")
    ] = 1.0,
    mps: Annotated[str, typer.Option(help="on: run NVIDIA's MPS daemon, for workers that share a GPU.")] = "off",
    strategy: Annotated[str, typer.Option(help="How replicas agree; see `paceline strategies`.")] = "allreduce",
    feed: Annotated[str, typer.Option(help="Where batches come from; see `paceline feeds`.")] = "dataset",
    batch: Annotated[int | None, typer.Option(help="Samples per worker and update (default: the workload's).")] = None,
    accumulate: Annotated[int, typer.Option(help="Micro-batches a worker's batch is computed in.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Train for so many updates.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Train for so many passes over the data.")] = None,
    seconds: Annotated[str | None, typer.Option(help="Train for so long, validation included: 30s, 5m.")] = None,
    until_percent: Annotated[
        float | None,
        typer.Option(
            help="End once the rate is known within ± so many percent; --steps, --epochs and --seconds are then "
            "ceilings (default: 10 minutes)."
        ),
    ] = None,
    timing: Annotated[
        str,
        typer.Option(help="detected: warm-up is found in the data; fixed:warmup=10,steps=20: as old benchmarks did."),
    ] = "detected",
    lr: Annotated[float | None, typer.Option(help="Learning rate (default: the workload's).")] = None,
    lr_rule: Annotated[str, typer.Option(help="How the rate grows with workers: none, linear or sqrt.")] = "none",
    lr_warmup: Annotated[int | None, typer.Option(help="Updates to reach a scaled rate (default: 100).")] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="own (the workload's) or sgd (default: own; sgd where devices are emulated).")
    ] = None,
    clip_norm: Annotated[float | None, typer.Option(help="Scale gradients down to this global norm.")] = None,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    validate: Annotated[
        str | None, typer.Option(help="epoch, end or off (default: epoch; off with a synthetic feed).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of initial weights, data order and noise.")] = 0,
    timeout: Annotated[
        str | None, typer.Option(help="No progress for so long is a hang (default: 30s or ten steps).")
    ] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Save a checkpoint every so many updates.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on from a run's folder or a checkpoint.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for record, series and checkpoints (default: runs/…).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the record as one JSON object on stdout.")] = False,
) -> None:
    """Train a workload with several workers and record what happened."""
    flags = {
        "workload": workload,
        "workers": workers,
        "workers_per_device": workers_per_device,
        "cores_per_device": cores_per_device,
        "nodes": nodes,
        "network": network,
        "device": device,
        "slow_motion": slow_motion,
        "mps": choose(mps, ("on", "off"), "value of --mps") == "on",
        "strategy": strategy,
        "feed": feed,
        "batch": batch,
        "accumulate": accumulate,
        "steps": steps,
        "epochs": epochs,
        "seconds": parse_seconds(seconds) if seconds is not None else None,
        "until_percent": until_percent,
        "timing": timing,
        "lr": lr,
        "lr_rule": lr_rule,
        "lr_warmup": lr_warmup,
        "optimizer": optimizer,
        "clip_norm": clip_norm,
        "precision": precision,
        "validate": validate,
        "seed": seed,
        "timeout": parse_seconds(timeout) if timeout is not None else None,
        "checkpoint_every": checkpoint_every,
        "resume": resume,
    }
    testbed = context.find_object(Testbed)
    flags = {name: value for name, value in flags.items() if value is not None}
    if settings is not None:
        typed = {name: value for name, value in flags.items() if _typed(context, name)}
        told = read_toml(settings)
        if typed.keys() & {*LENGTHS, "timing"}:
            told = {name: value for name, value in told.items() if name not in LENGTHS}
        flags = {**told, **typed}
    if flags.get("workload") is None:
        raise SpecError("Say what to train: paceline train WORKLOAD; `paceline workloads` lists them.")
    here = testbed.site.settings if testbed is not None else {}
    run(RunSpec.from_dict({**here, **flags}), out, as_json=json, testbed=testbed)


train.__doc__ = f"{train.__doc__}\n{_EXAMPLES}"


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def run(spec: RunSpec, out: Path | None, *, as_json: bool, testbed: Testbed | None = None) -> None:
    """Plan, run and print; on the hosts of a testbed, if there is one."""
    # Imported here, so that --help answers at once.
    from paceline.cli.output import claim_folder, print_summary
    from paceline.cli.progress import make_display
    from paceline.engines.local import LocalEngine
    from paceline.engines.plan import plan

    engine = LocalEngine(testbed)
    planned = plan(spec, engine.site)
    folder = claim_folder(out, default=_default_folder(planned.spec), resume=planned.spec.resume)
    try:
        with make_display(planned) as display:
            record = engine.run(planned, folder, display)
    except KeyboardInterrupt:
        raise Interrupted("Stopped by the user at once; nothing was recorded.") from None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # a failed run that left nothing leaves no empty folder either
            if out is None:
                folder.parent.rmdir()
    if as_json:
        print(record.to_json())
    else:
        print_summary(record, folder)
    if record.failures:
        sys.exit(1)


def _default_folder(spec: RunSpec) -> Path:
    def word(text: str) -> str:
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in text.partition(":")[0])

    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-{word(spec.workload)}-{word(spec.strategy)}-{spec.workers}w"
