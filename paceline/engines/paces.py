"""Find the pace of an emulated device by name: a published rate, a rate that the user gives, or a profile."""

from pathlib import Path

from paceline.devices.emulated import Pace, Profiled, Rate, is_emulated, names_of
from paceline.errors import SpecError
from paceline.grammar import require
from paceline.measure.profile import Profile
from paceline.numbers import number
from paceline.references.published import rate_of
from paceline.spec import RunSpec

_RATE = "rate="
_PROFILE = ".json"


def paces_of(spec: RunSpec) -> tuple[Pace, ...]:
    """The pace of each node's devices; empty where devices are not emulated."""
    if not is_emulated(spec.device):
        return ()
    paces = {name: _pace(name, spec) for name in dict.fromkeys(names_of(spec.device, spec.nodes))}
    return tuple(paces[name] for name in names_of(spec.device, spec.nodes))


def _pace(name: str, spec: RunSpec) -> Pace:
    if name.startswith(_RATE):
        return _rate(name)
    if name.endswith(_PROFILE):
        return _profiled(name, spec)
    published = rate_of(name, spec.workload.partition(":")[0])
    return Rate(
        device=name,
        units_per_second=published.rate,
        batch=published.batch,
        source=published.source,
    )


def _rate(name: str) -> Rate:
    text = name.removeprefix(_RATE)
    try:
        rate = float(text)
    except ValueError:
        raise SpecError(f"emulated:{name} is not valid: {text!r} is not a number of units per second.") from None
    require(0 < rate < float("inf"), f"emulated:{name} is not valid: a rate must be above 0 and finite.")
    return Rate(
        device=name, units_per_second=rate, batch=None, source=f"{number(rate)} units per second, given by the user"
    )


def _profiled(name: str, spec: RunSpec) -> Profiled:
    profile = Profile.load(Path(name))
    batch = f" --batch {spec.batch}" if spec.batch is not None else ""
    for what, profiled, asked in (
        ("workload", profile.spec, spec.workload),
        ("precision", profile.precision, spec.precision),
        ("batch", profile.batch, spec.batch),
    ):
        require(
            profiled == asked,
            f"emulated:{name} is a profile of {what} {profiled}, but this run has {asked}: make one with `paceline "
            f"profile {spec.workload} --precision {spec.precision}{batch}`.",
        )
    return Profiled(
        device=name,
        batch=profile.batch,
        forward_seconds=profile.forward_seconds,
        backward_seconds=profile.backward_seconds,
        update_seconds=profile.update_seconds,
        ready_seconds={gradient.name: gradient.ready_seconds for gradient in profile.gradients},
        source=f"profile of {profile.device}",
    )
