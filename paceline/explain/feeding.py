"""Cause: batches arrive too slowly."""

from collections.abc import Iterator

from paceline import grammar
from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import mean
from paceline.explain.cause import Cause
from paceline.numbers import ms, percent

_FULLY_USED_PERCENT = 85


def slow_input(case: Comparison) -> Iterator[Cause]:
    """Yield the time in which workers wait for their next batch or prepare it."""
    seconds = case.excess("input")
    if not case.noticeable(seconds):
        return
    setting = case.setting
    beyond = " more than ideal" if case.baseline else ""
    yield Cause(
        name="input",
        headline="Input-bound",
        seconds=seconds,
        sentence=f"each worker spends {ms(seconds)}{beyond} per step on getting its batch",
        evidence=(
            f"Input takes {ms(case.phases.input)}, {percent(case.phases.input / setting.step_seconds)} of a step, "
            f"with `--feed {setting.spec.feed}`.",
            *_loader_evidence(case),
        ),
        remedy=better_feed(case),
    )


def _loaders(feed: grammar.Part) -> int:
    """Loader processes of a worker; `at=python` always uses one."""
    return int(feed.options.get("loaders", 0)) or int(feed.options.get("at") == "python")


def _loader_evidence(case: Comparison) -> Iterator[str]:
    used = mean(worker.loader_utilisation_percent for worker in case.peers)
    if used is not None and _loaders(grammar.parse(case.setting.spec.feed, "feed")):
        meaning = "they are the limit" if used >= _FULLY_USED_PERCENT else "they too wait for data or for a core"
        yield f"Loaders use {used:.0f} % of their cores: {meaning}."


def better_feed(case: Comparison) -> str:
    """The feed to try where batches come too slowly."""
    feed = grammar.parse(case.setting.spec.feed, "feed")
    at, prefetch, loaders = feed.options.get("at"), int(feed.options.get("prefetch", 0)), _loaders(feed)
    if at == "device":
        return "The batch is already on the device: look at what each step does before it starts to compute."
    options = dict(feed.options)
    if at == "host" or (prefetch == 0 and loaders > 0):
        options["prefetch"] = str(2 * prefetch or 2)
        why = "it prepares batches during the step before"
    else:
        options |= {"prefetch": str(max(prefetch, 2)), "loaders": str(2 * loaders or 1)}
        why = "other processes prepare batches during the step before"
    return f"Try `--feed {grammar.Part(feed.name, options)}`: {why}."
