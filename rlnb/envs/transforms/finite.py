"""``FiniteTensorDictCheck``, which raises on the first NaN or infinite value."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.transforms.carried import choose_rows, find_mask
from rlnb.envs.transforms.transform import Transform


class FiniteTensorDictCheck(Transform):
    """Raises ``ValueError`` on the first NaN or infinite value.

    The error names the entry, the index and, in an env, the number of steps since the reset.

    Example:
        >>> from tensordict import TensorDict
        >>> data = TensorDict({"observation": torch.tensor([1.0, torch.nan])})
        >>> try:
        ...     FiniteTensorDictCheck()(data)
        ... except ValueError as error:
        ...     print(error)
        'observation' is nan at index (1,), where all numbers must be finite. 1 of its 2 numbers is not.
    """

    _shown = ()

    def __init__(self) -> None:
        super().__init__()

    def _forget(self) -> None:
        super()._forget()
        self._steps = torch.zeros((), dtype=torch.int64)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._check(next_tensordict, None)
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._steps = self._steps + 1
        self._check(next_tensordict, "step")
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        fresh = torch.zeros(tensordict_reset.batch_size, dtype=torch.int64, device=tensordict_reset.device)
        self._steps = choose_rows(find_mask(tensordict, "done"), fresh, self._steps, fresh.ndim)
        self._check(tensordict_reset, "reset")
        return tensordict_reset

    def _check(self, data: TensorDictBase, kind: str | None) -> None:
        for key in leaf_keys(data):
            value = data.get(key)
            if type(value) is torch.Tensor and value.dtype.is_floating_point and not bool(value.isfinite().all()):
                raise ValueError(self._message(key, value, data.ndim, kind))

    def _message(self, key: Any, value: torch.Tensor, batch_dims: int, kind: str | None) -> str:
        bad = ~value.isfinite()
        index = tuple(bad.nonzero()[0].tolist())
        when = ""
        if kind == "reset":
            when = " of a reset"
        elif kind == "step":
            steps = self._steps
            one = steps[index[:batch_dims]] if steps.shape == value.shape[:batch_dims] else steps.max()
            when = f" of step {int(one)} since the reset"
        count = int(bad.sum())
        return (
            f"{key!r}{when} is {value[index].item()} at index {index}, where all numbers must be finite. {count} of "
            f"its {value.numel()} numbers {'is' if count == 1 else 'are'} not."
        )


__all__ = ["FiniteTensorDictCheck"]
