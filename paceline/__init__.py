"""Paceline trains PyTorch models data-parallel and measures honestly how they scale."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.recipe import OptimizerRecipe
    from paceline.script import replicate
    from paceline.strategies.base import Share
    from paceline.workloads.base import Data, Examples, Tensors, Workload

__version__ = "0.1.0"
__all__ = ["Data", "Examples", "OptimizerRecipe", "Share", "Tensors", "Workload", "replicate"]

_HOMES = {
    "Data": "paceline.workloads.base",
    "Examples": "paceline.workloads.base",
    "OptimizerRecipe": "paceline.recipe",
    "Share": "paceline.strategies.base",
    "Tensors": "paceline.workloads.base",
    "Workload": "paceline.workloads.base",
    "replicate": "paceline.script",
}


def __getattr__(name: str) -> Any:
    """Import modules that need torch only when they are used, so that `paceline --help` answers at once."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")
