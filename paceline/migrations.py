"""Migrate files of earlier versions: one function for each change of schema, all in this file."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Content = dict[str, Any]
"""The parsed JSON of a file, before it is converted to a type."""

SCHEMA_VERSION = 2
"""The version of records that this Paceline writes."""

_RATES_OF_SAMPLES = ("images/s", "frames/s")
_CAST = re.compile(r"(?P<wire>bf16|fp16)\+allreduce(?::(?P<options>[^+]+))?")
_WIRE = re.compile(r"(?P<before>allreduce:(?:[^+]*,)?)wire=(?P<wire>\w+),?")


def migrated_strategy(text: str) -> str:
    """`allreduce:wire=bf16` of schema 1 is `bf16+allreduce` since schema 2; any other text stays as it is."""
    match = _WIRE.search(text)
    if match is None:
        return text
    plain = _WIRE.sub(r"\g<before>", text).rstrip(":,")
    return plain if match["wire"] == "fp32" else f"{match['wire']}+{plain}"


def strategy_of_schema_1(text: str) -> str:
    """The inverse of `migrated_strategy` for what schema 1 could write; any other text stays as it is.

    `bf16+allreduce:packs=2,reduce=sum` was `allreduce:packs=2,wire=bf16,reduce=sum`: `wire` came before `reduce`.
    """
    match = _CAST.fullmatch(text)
    if match is None:
        return text
    options = match["options"].split(",") if match["options"] else []
    after = [option for option in options if option.startswith("reduce=")]
    before = [option for option in options if option not in after]
    wire = f"wire={match['wire']}"
    return f"allreduce:{','.join((*before, wire, *after))}"


def migrated_settings(settings: Mapping[str, Any]) -> Content:
    """The settings of a run as they are written today: of records, studies, failures and checkpoints."""
    if not isinstance(settings.get("strategy"), str):
        return dict(settings)
    return {**settings, "strategy": migrated_strategy(settings["strategy"])}


def _from_1_to_2(record: Content) -> Content:
    """Schema 2: codecs are parts of a strategy's chain, and every field is present, null where unknown."""
    unit = record["throughput"]["unit"]
    counted = record["samples_timed"] if unit in _RATES_OF_SAMPLES else None
    return {
        "network": None,
        **record,
        "spec": _resolved(migrated_settings(record["spec"])),
        "units_timed": counted,
        "per_worker": [{**_UNKNOWN_OF_A_WORKER, **worker} for worker in record["per_worker"]],
        "utilisation": [{"stolen_percent": None, **device} for device in record["utilisation"]],
        "emulation": _emulation(record.get("emulation")),
    }


def _resolved(settings: Content) -> Content:
    """Schema 1 recorded null for the optimizer where it was the workload's own."""
    return {**settings, "optimizer": settings.get("optimizer") or "own"}


_UNKNOWN_OF_A_WORKER = dict.fromkeys(
    ("last_share", "late_seconds", "cpu_seconds_per_step", "queued_seconds_per_step", "peak_device_memory_bytes")
)


def _emulation(emulation: Content | None) -> Content | None:
    if emulation is None:
        return None
    return {"host_stolen_percent": None, "exchange_busy_percent": None, **emulation}


_STEPS: Mapping[int, Callable[[Content], Content]] = {1: _from_1_to_2}


def migrated_record(record: Content, version: int) -> Content:
    """A record of an earlier schema as one of the present schema."""
    for step in range(version, SCHEMA_VERSION):
        record = _STEPS[step](record)
    return {**record, "schema_version": SCHEMA_VERSION}
