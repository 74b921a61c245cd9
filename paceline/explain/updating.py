"""Further causes: the update, devices that only serve, and what lies between the phases."""

from collections.abc import Iterator

from paceline.breakdown.comparison import Comparison
from paceline.explain.cause import Cause
from paceline.numbers import count, ms


def heavy_update(case: Comparison) -> Iterator[Cause]:
    """Applying the gradients: by the worker, or by its servers."""
    seconds = case.excess("update")
    if not case.noticeable(seconds):
        return
    spec, servers = case.setting.spec, case.setting.traffic.servers
    parameters = case.setting.runs[0].record.workload.parameters
    used = case.setting.server_percent
    yield Cause(
        name="update",
        headline="Heavy update",
        seconds=seconds,
        sentence=f"the update takes {ms(seconds)} of a step{' more than ideal' if case.baseline else ''}"
        f"{', while workers wait for the servers' if servers else ''}",
        evidence=(
            f"It goes over {parameters:,} parameters, however many samples the batch has.",
            *([f"Servers use {used:.0f} % of their cores."] if used is not None else []),
        ),
        remedy=(
            f"`--strategy ps:servers={2 * servers}` divides it between more servers."
            if servers
            else f"`--batch {2 * case.setting.batch} --accumulate {2 * spec.accumulate}`: half as many updates for "
            "the same samples; or an optimizer with less state."
        ),
    )


def serving_devices(case: Comparison) -> Iterator[Cause]:
    """Devices that only hold servers count in the ideal, and compute nothing."""
    seconds = case.gap.components["servers"] if case.gap else 0.0
    if not case.noticeable(seconds):
        return
    serving = case.setting.devices - case.setting.worker_devices
    yield Cause(
        name="servers' devices",
        headline="Devices that only serve",
        seconds=seconds,
        sentence=f"with workers on the {count(serving, 'device')} of servers, too, the same samples would take a step "
        f"{ms(seconds)} less",
        evidence=(
            f"The ideal counts {count(case.setting.devices, 'device')}, workers use {case.setting.worker_devices}.",
        ),
        remedy="`ps:place=shared` puts servers on the workers' devices; `--strategy allreduce` needs none.",
    )


def between_phases(case: Comparison) -> Iterator[Cause]:
    """What no phase claims: counting, telling progress, asking whether the run is over."""
    seconds = case.excess("other")
    if case.noticeable(seconds):
        yield Cause(
            name="other",
            headline="Short steps",
            seconds=seconds,
            sentence=f"between its phases a step loses {ms(seconds)}, on counting and on agreeing when to stop",
            evidence=(f"A step is short: {ms(case.setting.step_seconds)}.",),
            remedy=f"Longer steps: `--batch {2 * case.setting.batch}`.",
        )
