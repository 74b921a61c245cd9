"""The state of replicas and codecs in checkpoints."""

from typing import Any, TypeAlias

StateDict: TypeAlias = dict[str, Any]
"""As torch's `state_dict()`: tensors, numbers, strings, lists and dicts, which load without executing code."""
