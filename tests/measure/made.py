"""Records of runs with a given rate, as far as rates and their ratios need them."""

from typing import Any

from complete import record_of

from paceline.record import Record

PLACE = {"host": "here", "processor": "some", "device_kind": "cpu", "versions": {"torch": "2.13.0"}}


def run(
    rate: float,
    *,
    workers: int = 1,
    devices: int | None = None,
    within: float | None = 0.01,
    place: dict[str, Any] | None = None,
    source: str = "generated",
    record: dict[str, Any] | None = None,
    **spec: Any,
) -> Record:
    """One run; its interval is `within` this share of the rate."""
    settings = {
        "workload": "vae",
        "batch": 8,
        "precision": "fp32",
        "feed": "dataset",
        "accumulate": 1,
        "cores_per_device": 1,
        "strategy": "independent" if workers == 1 else "allreduce",
        "workers": workers,
        "turn": 0,
    }
    low, high = (None, None) if within is None else (rate * (1 - within), rate * (1 + within))
    return record_of(
        {
            "spec": {**settings, **spec},
            "workload": {"parameters": 10, "data": {"source": source, "generated": True}},
            "environment": {**PLACE, **(place or {})},
            "devices": devices if devices is not None else workers,
            "throughput": {"value": rate, "low": low, "high": high},
            **(record or {}),
        }
    )


def turns(rates: list[float], **changes: Any) -> list[Record]:
    """Repeats of one setting."""
    return [run(rate, turn=turn, **changes) for turn, rate in enumerate(rates)]
