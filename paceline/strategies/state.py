"""What checkpoints hold of replicas and codecs."""

from typing import Any, TypeAlias

StateDict: TypeAlias = dict[str, Any]
"""As torch's `state_dict()`: tensors, numbers, strings, lists and dicts, which load without executing code."""
