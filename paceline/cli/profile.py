"""`paceline profile`: measure how long a device takes for each part of a step, for emulation and projection."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.errors import SpecError
from paceline.spec import RunSpec
from paceline.units import human_bytes, human_seconds, parse_seconds

if TYPE_CHECKING:
    from paceline.engines.plan import Plan
    from paceline.measure.profile import Profile

_EXAMPLES = """
Examples:

  paceline profile vae --out vae.json

  paceline profile resnet18:image=64 --batch 32 --cores-per-device 2 --until-percent 1 --seconds 5m
"""


def profile(
    workload: Annotated[str, typer.Argument(help="A name from `paceline workloads`, or package.module:function.")],
    batch: Annotated[int | None, typer.Option(help="Samples per step (default: the workload's).")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    cores_per_device: Annotated[int, typer.Option(help="On CPU, how many cores make one device.")] = 1,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    feed: Annotated[str, typer.Option(help="Where batches come from; see `paceline feeds`.")] = "synthetic",
    until_percent: Annotated[
        float, typer.Option(help="Stop once the throughput is known within ± this many percent.")
    ] = 2.0,
    seconds: Annotated[str, typer.Option(help="Upper limit on the time: 30s, 5m.")] = "60s",
    out: Annotated[
        Path | None, typer.Option(help="The profile's file (default: profiles/WORKLOAD-batchB.json).")
    ] = None,
) -> None:
    """Capture a device profile: how long forward, backward and update take, and when each gradient is ready."""
    # Imported here, so that --help answers at once.
    from paceline.devices.emulated import is_emulated
    from paceline.engines.plan import plan

    if is_emulated(device):
        raise SpecError(f"--device {device} cannot be profiled: it does not compute. Use auto, cpu or cuda.")
    planned = plan(
        RunSpec(
            workload=workload,
            batch=batch,
            device=device,
            cores_per_device=cores_per_device,
            precision=precision,  # type: ignore[arg-type]  # checked by RunSpec
            feed=feed,
            strategy="independent",
            validate="off",
            until_percent=until_percent,
            seconds=parse_seconds(seconds),
        )
    )
    captured = _measured(planned)
    path = out or _default(captured)
    captured.save(path)
    _print(captured, path)


profile.__doc__ = f"{profile.__doc__}\n{_EXAMPLES}"


def _measured(planned: "Plan") -> "Profile":
    from paceline.cli.progress import make_display
    from paceline.engines.local import LocalEngine
    from paceline.measure import sidecar
    from paceline.measure.profile import Profile

    with tempfile.TemporaryDirectory(prefix="paceline-profile-") as folder:
        with make_display(planned) as display:
            record = LocalEngine().run(planned, Path(folder), display)
        (worker,) = sidecar.load(Path(folder))
    return Profile.of(record, worker)


def _default(captured: "Profile") -> Path:
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in captured.spec)
    return Path("profiles") / f"{name}-batch{captured.batch}.json"


def _print(captured: "Profile", path: Path) -> None:
    from paceline.measure.stats import Figure
    from paceline.numbers import rate
    from paceline.studies.table import figure

    speed = captured.throughput
    parts = {name: getattr(captured, f"{name}_seconds") for name in ("input", "forward", "backward", "update", "other")}
    step = sum(parts.values())
    last = max(gradient.ready_seconds for gradient in captured.gradients)
    print(f"{captured.spec} · batch {captured.batch} · {captured.precision} · {captured.device}")
    print(f"throughput  {figure(Figure(speed.value, speed.low, speed.high), rate)} {speed.unit}")
    print(f"a step      {human_seconds(step)}: " + ", ".join(f"{n} {human_seconds(s)}" for n, s in parts.items()))
    print(f"spread      {captured.compute_spread:.1%} of forward and backward, from step to step")
    print(
        f"gradients   {len(captured.gradients)} tensors, {human_bytes(captured.workload.gradient_bytes)}, "
        f"the last ready {human_seconds(last)} after backward began"
    )
    print(f"profile     {path}")
