"""The names of ``torchrl.data.utils``: helpers for specs, action spaces and NumPy dtypes."""

from __future__ import annotations

import numpy as np
import torch
from cloudpickle import dumps as _dumps
from cloudpickle import loads as _loads

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.helpers import check_no_exclusive_keys, consolidate_spec, contains_lazy_spec
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.tensor_specs import DEVICE_TYPING, INDEX_TYPING

#: TorchRL's names of the encodings of actions.
ACTION_SPACE_MAP: dict[type[TensorSpec] | str, str] = {
    spelling: name
    for name, spellings in {
        "one_hot": (OneHot, "one_hot", "one-hot"),
        "mult_one_hot": (MultiOneHot, "mult_one_hot", "mult-one-hot", "multi_one_hot", "multi-one-hot"),
        "binary": (Binary, "binary"),
        "categorical": (Categorical, "categorical"),
        "multi_categorical": (
            *(MultiCategorical, "multi_categorical", "multi-categorical"),
            *("multi_discrete", "multi-discrete"),
        ),
    }.items()
    for spelling in spellings
}

numpy_to_torch_dtype_dict: dict[np.dtype, torch.dtype] = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"
    )
}  # fmt: skip
torch_to_numpy_dtype_dict = {torch_dtype: dtype for dtype, torch_dtype in numpy_to_torch_dtype_dict.items()}


def _find_action_space(action_space: TensorSpec | str) -> str:
    """Return TorchRL's name of the encoding of an action: a spec, a Composite with one leaf of choices, or a name.

    Private, but users' losses import it.

    Example:
        >>> _find_action_space(OneHot(3)), _find_action_space("one-hot")
        ('one_hot', 'one_hot')
    """
    specs = action_space.values(True, True) if isinstance(action_space, Composite) else [action_space]
    found = {ACTION_SPACE_MAP.get(spec if isinstance(spec, str) else type(spec)) for spec in specs} - {None}
    if len(found) != 1:
        names = ", ".join(sorted(set(ACTION_SPACE_MAP.values())))
        raise ValueError(
            f"the action space {action_space!r} has no unique name. Give the spec of the action, "
            f"env.action_spec, or one of {names}."
        )
    return str(found.pop())


class CloudpickleWrapper:
    """Wraps a function so that it is pickled by value and can be sent from a notebook to another process.

    Args:
        fn: the function.

    Example:
        >>> import pickle
        >>> pickle.loads(pickle.dumps(CloudpickleWrapper(lambda x: x + 1)))(2)
        3
    """

    def __init__(self, fn: object) -> None:
        self.fn = fn

    def __getstate__(self) -> bytes:
        return _dumps(self.fn)

    def __setstate__(self, state: bytes) -> None:
        self.fn = _loads(state)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        return self.fn(*args, **kwargs)  # type: ignore[operator]  # it is whatever the user gave


__all__ = [
    "ACTION_SPACE_MAP", "DEVICE_TYPING", "INDEX_TYPING", "CloudpickleWrapper", "check_no_exclusive_keys",
    "consolidate_spec", "contains_lazy_spec", "numpy_to_torch_dtype_dict", "torch_to_numpy_dtype_dict",
]  # fmt: skip
