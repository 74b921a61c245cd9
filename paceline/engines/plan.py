"""Turn a spec into a plan: check names, refuse combinations, find devices. Nothing is started."""

import dataclasses
from dataclasses import dataclass, field

from paceline.devices import catalogue as devices
from paceline.devices.base import Demand, Placement
from paceline.devices.emulated import Pace, is_emulated, require_nodes
from paceline.engines.paces import paces_of
from paceline.errors import DeviceError, SpecError
from paceline.feeds import catalogue as feeds
from paceline.network import Site, parse_network
from paceline.settings import Role, SettingValue
from paceline.spec import RunSpec, with_role
from paceline.timing import fixed_timing
from paceline.traffic import catalogue as strategies
from paceline.traffic.resolved import ResolvedStrategy
from paceline.workloads import catalogue as workloads

UPPER_LIMIT_SECONDS = 600.0
"""The longest that a run with `until_percent` trains, where the user gives no other limit."""

DEFAULT_WARMUP = 100
"""Updates of learning-rate warm-up; not a share of the run, which may be resumed and extended."""


_ONE_NODE = Site()
_DEFAULT_FEED = "dataset"
_STAND_IN = "parameters="
_EMULATED_FEED = "synthetic:at=device"
"""Emulated devices need no input: one batch, made once, shows how much work a step is."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run that can be started."""

    spec: RunSpec
    """The resolved settings: batch, learning rate, optimizer and all other open settings have a value."""

    placement: Placement
    traffic: ResolvedStrategy
    """The resolved strategy."""

    paces: tuple[Pace, ...] = ()
    """The paces of emulated devices, by node."""

    from_workload: frozenset[str] = field(default=frozenset(), compare=False)
    """Open settings that got the workload's own values."""

    @property
    def identity(self) -> dict[str, SettingValue]:
        """Settings that identify the run, without those that the workload decides, because it may be edited later."""
        identifying = self.spec.by_role(Role.IDENTITY)
        return {name: None if name in self.from_workload else value for name, value in identifying.items()}


def site_settings(site: Site) -> dict[str, SettingValue]:
    """The values that a run's open settings take at this site."""
    return {} if site.network is None else {name: getattr(site, name) for name in with_role(Role.FROM_SITE)}


def plan(spec: RunSpec, site: Site = _ONE_NODE) -> Plan:
    """Refuse what cannot work, with a remedy, and resolve open settings."""
    nodes, network = _across_nodes(spec, site)
    traffic = strategies.resolve(spec.strategy)
    emulated = is_emulated(spec.device)
    if emulated:
        require_nodes(spec.device, site.nodes)
    _refuse_what_needs_numbers(spec) if emulated else _refuse_what_needs_emulation(spec)
    feed = feeds.check(_EMULATED_FEED if emulated and spec.feed == _DEFAULT_FEED else spec.feed)
    endless = feed.startswith("synthetic")
    workload = workloads.check(spec.workload)
    own = workloads.defaults_of(workload)
    resolved = dataclasses.replace(
        _with_length(spec),
        workload=workload,
        batch=spec.batch if spec.batch is not None else own.batch,
        lr=spec.lr if spec.lr is not None else own.optimizer.lr,
        strategy=str(traffic),
        feed=feed,
        nodes=nodes,
        network=network,
        optimizer=spec.optimizer or ("sgd" if emulated else "own"),
        validate=spec.validate or ("off" if endless else "epoch"),
        lr_warmup=DEFAULT_WARMUP if spec.lr_rule != "none" and spec.lr_warmup is None else spec.lr_warmup,
    )
    if endless and spec.validate == "epoch":
        raise SpecError(f"--validate epoch: --feed {spec.feed} is endless and has no epochs: use --validate end.")
    if endless and spec.epochs is not None:
        raise SpecError(f"--feed {spec.feed} is endless and has no epochs: use --steps or --seconds.")
    _refuse_learning_mistakes(resolved, traffic)
    placement = devices.place(spec.device, _demand(resolved, traffic))
    _refuse_what_the_devices_cannot(spec, traffic, placement)
    return Plan(
        spec=dataclasses.replace(resolved, device=spec.device if emulated else placement.kind),
        placement=placement,
        traffic=traffic,
        paces=paces_of(resolved),
        from_workload=_from_workload(spec, resolved),
    )


def _from_workload(asked: RunSpec, resolved: RunSpec) -> frozenset[str]:
    """The open parts of the training recipe, with the workload's own values."""
    filled = {n for n in with_role(Role.RECIPE) if getattr(asked, n) is None and getattr(resolved, n) is not None}
    # A warm-up follows from the rule, and emulated devices update with SGD, whatever the workload's optimizer is.
    others = {"lr_warmup"} | ({"optimizer"} if resolved.optimizer != "own" else set())
    return frozenset(filled - others)


def _refuse_what_the_devices_cannot(spec: RunSpec, traffic: ResolvedStrategy, placement: Placement) -> None:
    if traffic.needs_gpu and placement.kind != "cuda":
        raise DeviceError("ps:device=gpu needs --device cuda: this run is on CPU. Use device=cpu.")
    if spec.cores_per_device != 1 and placement.kind == "cuda":
        raise DeviceError(
            f"--cores-per-device {spec.cores_per_device} needs a CPU: this run is on GPUs. Leave it out, or use "
            "--device cpu."
        )
    if spec.mps and placement.kind != "cuda":
        raise DeviceError("--mps on needs GPUs: this run is on CPU. Use --mps off.")
    if spec.mps and spec.workers_per_device == 1:
        raise SpecError("--mps on is for several workers per GPU: add --workers-per-device, or use --mps off.")


def _refuse_what_needs_numbers(spec: RunSpec) -> None:
    """Refuse settings that need data or trained weights: emulated devices have neither."""
    if spec.feed != _DEFAULT_FEED and not spec.feed.startswith("synthetic"):
        raise SpecError(
            f"--feed {spec.feed} cannot be combined with emulated devices: they read no data. Leave it out."
        )
    if spec.epochs is not None:
        raise SpecError("--epochs cannot be combined with emulated devices: they read no data. Use --steps.")
    if spec.checkpoint_every is not None or spec.resume is not None:
        raise SpecError("Checkpoints cannot be combined with emulated devices: they train no weights. Leave them out.")
    if spec.validate not in (None, "off"):
        raise SpecError(
            f"--validate {spec.validate} cannot be combined with emulated devices: they train no weights. Leave it out."
        )


def _refuse_what_needs_emulation(spec: RunSpec) -> None:
    if spec.slow_motion != 1:
        raise SpecError(
            f"--slow-motion {spec.slow_motion:g} needs emulated devices, which can be slowed: add --device emulated:…."
        )
    if _STAND_IN in spec.workload:
        raise SpecError(
            f"{spec.workload} is a stand-in that has only a model's size: it cannot compute. Add --device emulated:…."
        )


def _across_nodes(spec: RunSpec, site: Site) -> tuple[int, str | None]:
    """Nodes that get workers, and the network between them; one node has none."""
    if site.network is None and (spec.nodes > 1 or spec.network is not None):
        asked = f"--nodes {spec.nodes}" if spec.nodes > 1 else f"--network {spec.network}"
        raise SpecError(
            f"{asked} needs several hosts: put `paceline testbed --nodes {max(spec.nodes, 2)} --bandwidth "
            f"{spec.network or '1Gbps'} --` before the verb to emulate them on this machine."
        )
    if spec.nodes > site.nodes:
        raise SpecError(f"--nodes {spec.nodes} is more than the testbed's {site.nodes}: start it with more --nodes.")
    if site.network is None:
        return 1, None
    network = parse_network(spec.network or site.network)
    network.check_nodes(site.nodes)
    network.slowed(spec.slow_motion)  # refused where nothing can be that slow
    if network.latency is not None and not site.delays:
        raise DeviceError(f"{network}: this kernel has no netem, which delays packets. Leave the latency out.")
    nodes = min(spec.nodes, spec.workers)
    return nodes, str(network) if nodes > 1 else None


def _with_length(spec: RunSpec) -> RunSpec:
    """Set the length of training where `timing` or `until_percent` determines it."""
    fixed = fixed_timing(spec.timing)
    if fixed is not None:
        return dataclasses.replace(spec, steps=fixed.total)
    if spec.until_percent is not None and all(length is None for length in spec.by_role(Role.LENGTH).values()):
        return dataclasses.replace(spec, seconds=UPPER_LIMIT_SECONDS)
    return spec


def _demand(spec: RunSpec, traffic: ResolvedStrategy) -> Demand:
    return Demand(
        workers=spec.workers,
        workers_per_device=spec.workers_per_device,
        cores_per_device=spec.cores_per_device,
        nodes=spec.nodes,
        servers=traffic.servers,
        server_place=traffic.server_place,
    )


def _refuse_learning_mistakes(spec: RunSpec, traffic: ResolvedStrategy) -> None:
    if spec.lr_rule != "none" and traffic.reduction == "sum":
        raise SpecError(
            f"--lr-rule {spec.lr_rule} with allreduce:reduce=sum scales twice: summing over workers already "
            "multiplies the rate by their number. Use reduce=mean, or --lr-rule none."
        )
    if spec.lr_rule != "none" and not traffic.synchronous:
        raise SpecError(
            f"--lr-rule {spec.lr_rule} cannot be combined with {spec.strategy}: each update uses one worker's batch, "
            "however many workers there are. Use --lr-rule none."
        )
    if spec.clip_norm is not None and traffic.clipping_refused is not None:
        raise SpecError(f"--clip-norm with {traffic.clipping_refused}")
