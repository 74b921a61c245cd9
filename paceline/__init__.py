"""Paceline trains PyTorch models data-parallel and measures honestly how they scale."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.workloads.base import Data, Examples, Tensors, Workload

__version__ = "0.1.0"
__all__ = ["Data", "Examples", "Tensors", "Workload"]

_HOMES = {
    "Data": "paceline.workloads.base",
    "Examples": "paceline.workloads.base",
    "Tensors": "paceline.workloads.base",
    "Workload": "paceline.workloads.base",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch only when it is asked for: `paceline --help` must answer at once."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")
