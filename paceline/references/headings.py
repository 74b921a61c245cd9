"""Headings of tables as people write them: `#GPU`, `np`, `images/s`, `Speedup ratio`, `step time (ms)`."""

import re
from dataclasses import dataclass

LABELS = ("workload", "strategy", "feed", "series")
"""Columns whose values distinguish series."""

_NOUN = r"(?:images?|imgs?|samples?|examples?|frames?|sequences?|sentences?|words?|tokens?)"
PER_SECOND = rf"(?P<noun>{_NOUN}) (?:per )?(?:s|secs?|seconds?)"
"""A rate, in lower-case words."""

_COUNT = r"(?:n |num |no |number of |total )?"
_DEVICE = r"(?:gpus?|devices?|accelerators?)"
_WORKER = r"(?:workers?|np|n?ranks?|replicas?|process(?:es)?|procs?)"
_STEP = r"(?:steps?|batch(?:es)?|iterations?|iters?)"
_TIME_OF_STEPS = rf"(?:total )?time (?:to |for )?(?:process |run )?(?P<steps>\d+) {_STEP}"

# Patterns for headings in lower case, with every run of other characters replaced by a single space.
_FIELDS: dict[str, str] = {
    "workers_per_device": rf"{_COUNT}{_WORKER} per {_DEVICE}",
    "workers": rf"{_COUNT}{_WORKER}(?: count)?|world size|n",
    "devices": rf"{_COUNT}{_DEVICE}(?: number| count)?(?: used)?",
    "nodes": rf"{_COUNT}(?:nodes?|hosts?)",
    "machine": r"machine|hostname|host name|system",
    "global_batch": r"(?:global|total|whole) batch(?: size)?",
    "batch": rf"(?:local )?batch(?: size)?(?: per (?:{_DEVICE}|{_WORKER}))?",
    "throughput": rf"(?:(?:total|processing|training) )?(?:throughput|speed|rate)(?: {PER_SECOND})?",
    "speedup": r"speed ?ups?(?: ratio| factor)?|scalability|scaling factor",
    "efficiency": r"(?:scaling |parallel )?eff(?:iciency)?",
    "step_seconds": rf"step|{_STEP} (?:time|seconds)|(?:time|seconds) per {_STEP}",
    "sync_seconds": r"sync|(?:sync|exchange) (?:time|seconds)",
    "seconds": r"(?:total |wall |training |run )?time|seconds|duration|elapsed",
    "steps": rf"{_COUNT}{_STEP}",
    "epochs": r"epochs?",
    "samples": rf"(?:total )?{_NOUN}(?: processed| seen)?",
    "updates": r"updates?",
    "val_loss": r"val(?:idation)? loss",
    "loss": r"(?:train(?:ing)? )?loss",
    "utilisation_percent": rf"(?:(?:{_DEVICE}|cpu) )?util(?:i[sz]ation)?",
    "workload": r"model|network|workload",
    "strategy": r"strategy|variable update|exchange",
    "feed": r"feed|data",
    "series": r"series|framework|label|mode|variant|method",
}
_UNITS = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minutes"), "m"),
    **dict.fromkeys(("h", "hours"), "h"),
    **dict.fromkeys(("percent", "%"), "%"),
    "x": "x",
}
FIELDS = tuple(_FIELDS)
"""Everything that a column can mean."""

# What trackers put before the name of a metric: `train/samples_per_second`, `run 7 - throughput`.
_TRACKED = re.compile(
    r"(?:.* - )?(?:(?:train|training|perf|performance|summary|config|metrics?|stats|throughput|timing)[/.])+"
)
# Columns that trackers add by themselves, among them the number of a step, which is no time.
_OF_TRACKERS = re.compile(r"_(?:step|runtime|timestamp|wandb)|.*__(?:min|max)")
_IN_BRACKETS = re.compile(r"[(\[](.*?)[)\]]")
# Units other than samples: the table does not give the number per sample.
_NOT_SAMPLES = ("word", "token")


@dataclass(frozen=True)
class Heading:
    """A column of a user's table."""

    text: str
    field: str | None
    """The field of a row, or one of LABELS; None for a column that is not read."""

    unit: str | None = None
    """`ms`, `s`, `m`, `h`, `%`, `x`, or for a throughput `images/s`."""

    counts_samples: bool = False
    """Whether a throughput counts samples."""

    steps: int | None = None
    """The number of steps that a time covers, where the heading says so."""


def read_heading(text: str) -> Heading:
    """The meaning of a heading, with the unit it names."""
    lower = _TRACKED.sub("", text.lower(), count=1) if _TRACKED.match(text.lower()) else text.lower()
    if _OF_TRACKERS.fullmatch(lower):
        return Heading(text, None)
    bracketed = _IN_BRACKETS.search(lower)
    inside = _plain(bracketed[1]) if bracketed else ""
    name = _plain(_IN_BRACKETS.sub(" ", lower))
    unit = _UNITS.get("%" if "%" in lower else inside)
    first, _, last = name.rpartition(" ")
    if rate := re.fullmatch(PER_SECOND, name):
        return _rate(text, rate["noun"])
    if of_steps := re.fullmatch(_TIME_OF_STEPS, name):
        return Heading(text, "seconds", unit, steps=int(of_steps["steps"]))
    if name == "step" and unit is None:  # its number, more often than its time
        return Heading(text, None)
    for candidate, its_unit in ((name, unit), (first, _UNITS.get(last) or unit)):
        for field, pattern in _FIELDS.items():
            if candidate and (match := re.fullmatch(pattern, candidate)):
                if field == "throughput":
                    inner = re.fullmatch(PER_SECOND, inside)
                    noun = match["noun"] or (inner["noun"] if inner else None)
                    return _rate(text, noun) if noun else Heading(text, field)
                return Heading(text, field, its_unit)
    return Heading(text, None)


def as_field(text: str, field: str) -> Heading:
    """A heading that the user gave a meaning, with the unit that it names."""
    heading = read_heading(text)
    if heading.field == field:
        return heading
    words = _plain(text.lower())
    if field == "throughput":
        rate = re.search(PER_SECOND, words)
        return _rate(text, rate["noun"]) if rate else Heading(text, field)
    return Heading(text, field, _UNITS.get("%" if "%" in text else words.rpartition(" ")[2]))


def _rate(text: str, noun: str) -> Heading:
    return Heading(text, "throughput", f"{noun}/s", counts_samples(noun))


def counts_samples(unit: str) -> bool:
    """Whether a rate counts samples; the words of a sample are not known."""
    return not unit.startswith(_NOT_SAMPLES)


def _plain(text: str) -> str:
    """Lower-case letters and digits with single spaces."""
    return " ".join(re.findall(r"[a-z0-9]+", text))
