"""Quantities as people write them: "25MB", "1.5GiB", "90s", "1Gbps" (MB = 10⁶ bytes, MiB = 2²⁰, Gbps = 10⁹ bits/s)."""

import math
import re

from paceline.errors import SpecError
from paceline.numbers import significant

_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BITS_PER_SECOND = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "tbps": 1e12}
_BITS = re.compile(r"([kKMGT]?)(?:bps|bits?/s|b/s|bits?ps)|([kmgt])bps")
_BYTES_PER_SECOND = re.compile(r"((?:[kKMGT]i?)?B)(?:/s|/sec)")
_EITHER = re.compile(r"[kKMGT]?(?:Bps|BPS|BPs)|[mgt]b/s")
_MEGABITS = re.compile(r"[KMGT]i?b")
_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-zA-Zµ/]*)\s*")


def parse_bytes(text: str) -> int:
    """`"25MB"` → 25000000; a plain number is bytes."""
    number, unit = _split(text, "an amount of bytes", "25MB, 1MiB, 4096")
    if _MEGABITS.fullmatch(unit):
        raise SpecError(
            f"{text!r} is not an amount of bytes: {unit} are bits; write {unit[:-1]}B for bytes, as in 25MB."
        )
    factor = _BYTES.get((unit or "B").upper())
    if factor is None:
        raise SpecError(f"{text!r} is not an amount of bytes: use one of B, KB, MB, GB, KiB, MiB, GiB, as in 25MB.")
    return round(_finite(text, number * factor))


def parse_seconds(text: str) -> float:
    """`"1.5m"` → 90.0; a plain number is seconds."""
    number, unit = _split(text, "a time", "90s, 5m, 250ms")
    factor = _SECONDS.get((unit or "s").replace("µ", "u"))
    if factor is None:
        raise SpecError(f"{text!r} is not a time: use one of us, ms, s, m, h, as in 90s.")
    return _finite(text, number * factor)


def parse_bandwidth(text: str) -> float:
    """`"1Gbps"` → 1e9 bits per second, as are `"1Gbit/s"`, `"1Gb/s"` and `"125MB/s"`; the unit is needed.

    A small b is a bit, a large B a byte. `GBps` and `GBPS` are written for either, so they are refused.
    """
    number, unit = _split(text, "a bandwidth", "1Gbps, 100Mbps, 125MB/s")
    if _EITHER.fullmatch(unit):
        size, amount = unit[:-3].upper().replace("K", "k"), f"{number:g}"
        raise SpecError(
            f"{text!r} is a bandwidth in bits or in bytes: write {amount}{size}bps for bits, or {amount}{size}B/s for "
            "bytes (8 times as much), as in 125MB/s."
        )
    if match := _BITS.fullmatch(unit):
        factor = _BITS_PER_SECOND[f"{(match[1] or match[2] or '').lower()}bps"]
    elif match := _BYTES_PER_SECOND.fullmatch(unit):
        factor = 8.0 * _BYTES[match[1].upper()]
    else:
        raise SpecError(f"{text!r} is not a bandwidth: use bps, kbps, Mbps, Gbps or Tbps, or bytes as in 125MB/s.")
    return _finite(text, number * factor)


def format_bandwidth(bits_per_second: float) -> str:
    """`1e9` → `"1Gbps"`: six digits, so that a rate a person wrote parses back to the same number."""
    for unit in ("Gbps", "Mbps", "kbps"):
        if bits_per_second >= _BITS_PER_SECOND[unit.lower()]:
            return f"{bits_per_second / _BITS_PER_SECOND[unit.lower()]:g}{unit}"
    return f"{bits_per_second:g}bps"


def format_bytes(count: float) -> str:
    """`25000000` → `"25MB"`: exact where it can be, so that it parses back to the same number."""
    for unit in ("GB", "MB", "KB"):
        if count >= _BYTES[unit] and count % _BYTES[unit] == 0:
            return f"{int(count // _BYTES[unit])}{unit}"
    return f"{int(count)}B" if count == int(count) else f"{count}B"


def human_bytes(count: float) -> str:
    """`25400000` → `"25.4 MB"`, for reading."""
    for unit in ("GB", "MB", "KB"):
        if count >= _BYTES[unit]:
            return f"{significant(count / _BYTES[unit])} {unit}"
    return f"{count:.0f} B"


def human_seconds(seconds: float) -> str:
    """`83.2` → `"1m23s"`, for reading."""
    if seconds < 0.9995:  # from here on three digits are a whole second
        return f"{seconds * 1e3:.3g}ms"
    if seconds < 60:
        return f"{seconds:.3g}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def _finite(text: str, amount: float) -> float:
    if math.isinf(amount):
        raise SpecError(f"{text!r} is not valid: the number is too large.")
    return amount


def _split(text: str, what: str, examples: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise SpecError(f"{text!r} is not {what}: write it like {examples}.")
    return float(match[1]), match[2]
