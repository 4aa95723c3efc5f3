"""The leaves of a TensorDict: tensors and non-tensor data alike."""

from __future__ import annotations

from typing import Any, TypeGuard

from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor

from rlnb.data.ted.keys import NestedKey, as_key


def is_branch(value: Any) -> TypeGuard[TensorDictBase]:
    """Whether an entry is a nested TensorDict rather than a leaf (a tensor or non-tensor data) or ``None``."""
    return isinstance(value, TensorDictBase) and not is_non_tensor(value)


def leaf_keys(tensordict: TensorDictBase, prefix: tuple[str, ...] = ()) -> list[NestedKey]:
    """List the keys of all leaves, including non-tensor data, which ``tensordict.keys(True, True)`` leaves out.

    Each key starts with ``prefix``. Of a lazy stack, the keys that all rows have are listed.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> leaf_keys(TensorDict({"note": "hello", "a": {"b": torch.zeros(1)}}))
        ['note', ('a', 'b')]
    """
    if isinstance(tensordict, LazyStackedTensorDict):
        # Its entries cannot be stacked if the rows differ in shape.
        rows = [leaf_keys(row, prefix) for row in tensordict.tensordicts]
        return [key for key in rows[0] if all(key in row for row in rows[1:])]
    found: list[NestedKey] = []
    for name, value in tensordict.items():
        path = (*prefix, name)
        found += leaf_keys(value, path) if is_branch(value) else [as_key(path)]
    return found
