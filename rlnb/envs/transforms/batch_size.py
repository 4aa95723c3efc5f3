"""``BatchSizeTransform``, which changes the batch size of an env."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.envs.transforms.transform import Transform

Reshape = Callable[[TensorDictBase], TensorDictBase]


class BatchSizeTransform(Transform):
    """Sets the batch size of a stateless env, or reshapes the data of a batched one.

    Args:
        batch_size: new batch size of a stateless env, one with ``batch_locked = False``.
        reshape_fn: changes the batch size of data: reshape, flatten, unflatten, squeeze or unsqueeze. It must keep the
            order of the envs.
        reset_func: with ``batch_size``: takes the input of a reset and the output of the env's own reset, and returns
            the data of a reset with the new batch size. Default: the env is reset once for each row.
        env_kwarg: with ``batch_size``: whether to pass it to the env's own reset, ``_reset(tensordict,
            batch_size=...)``.

    Raises:
        ValueError: If not exactly one of ``batch_size`` and ``reshape_fn`` is given; if ``reset_func`` or ``env_kwarg``
            is given without ``batch_size``; if the env is not stateless; or if ``reshape_fn`` changes the order.

    Example:
        >>> from rlnb.envs import GymEnv, PendulumEnv, SerialEnv, TransformedEnv
        >>> TransformedEnv(PendulumEnv(), BatchSizeTransform(batch_size=[5])).rollout(3).batch_size
        torch.Size([5, 3])
        >>> four = SerialEnv(4, lambda: GymEnv("CartPole-v1"))
        >>> TransformedEnv(four, BatchSizeTransform(reshape_fn=lambda data: data.reshape(2, 2))).reset().batch_size
        torch.Size([2, 2])
    """

    _inner: torch.Size | None
    _outer: torch.Size | None

    def __init__(
        self,
        *,
        batch_size: Sequence[int] | None = None,
        reshape_fn: Reshape | None = None,
        reset_func: Callable[[TensorDictBase, TensorDictBase], TensorDictBase] | None = None,
        env_kwarg: bool = False,
    ) -> None:
        if (batch_size is None) == (reshape_fn is None):
            got = "neither" if batch_size is None else "both"
            raise ValueError(f"BatchSizeTransform needs one of batch_size and reshape_fn, and got {got}.")
        if reshape_fn is not None and (reset_func is not None or env_kwarg):
            raise ValueError("reset_func and env_kwarg go with batch_size, and BatchSizeTransform got reshape_fn.")
        if reset_func is not None and env_kwarg:
            raise ValueError("reset_func makes the data of a reset and env_kwarg lets the env make it: pass only one.")
        self.batch_size = None if batch_size is None else torch.Size(batch_size)
        super().__init__()
        self.reshape_fn, self.reset_func, self.env_kwarg = reshape_fn, reset_func, bool(env_kwarg)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict if self.reshape_fn is None else self.reshape_fn(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.reshape_fn is not None:
            return self.reshape_fn(tensordict_reset)
        if self.reset_func is not None:
            tensordict_reset = self.reset_func(tensordict, tensordict_reset)
        elif tensordict_reset.batch_size != self.batch_size:
            tensordict_reset = self._rows(tensordict, tensordict_reset)
        if tensordict_reset.batch_size != self.batch_size:
            who = "reset_func" if self.reset_func is not None else "the env's reset"
            raise ValueError(
                f"BatchSizeTransform asked {who} for data of batch size {tuple(self.batch_size or ())}, and got "
                f"{tuple(tensordict_reset.batch_size)}."
            )
        return tensordict_reset

    def _rows(self, given: TensorDictBase, first: TensorDictBase) -> TensorDictBase:
        """Reset the env for each row."""
        parent, batch_size = self.parent, self.batch_size
        assert parent is not None and batch_size is not None
        if self.env_kwarg:
            return parent.base_env.reset(batch_size=batch_size)
        rows = [first, *(parent.reset() for _ in range(batch_size.numel() - 1))]
        stacked: Any = torch.stack(rows)  # type: ignore[arg-type]  # torch stacks TensorDicts
        return stacked.reshape(batch_size)

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._step_input(tensordict)

    @property
    def _changes_resets(self) -> bool:
        return self.reshape_fn is not None

    def _step_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Reshape the input of a step to the batch size before this transform."""
        if self.reshape_fn is None or self._inner is None:
            return tensordict
        return tensordict.reshape(self._inner)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._step_input(tensordict)

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return self.reshape_fn is not None and self._inner is not None

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Change the shape of all specs of inputs; see :class:`Transform`."""
        inner = self._learn(input_spec.shape)
        return self._reshaped(super().transform_input_spec(input_spec), inner)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Change the shape of all specs of outputs; see :class:`Transform`."""
        inner = self._learn(output_spec.shape)
        return self._reshaped(super().transform_output_spec(output_spec), inner)

    def _reshaped(self, specs: Composite, inner: torch.Size) -> Composite:
        assert self._outer is not None
        changed: dict[str, Any] = {}
        for name in specs:
            composite = specs[name]
            same = inner.numel() == self._outer.numel() and self.batch_size is None
            changed[name] = composite.reshape(self._outer) if same else composite.expand(*self._outer)
        return Composite(changed, shape=self._outer)

    def _learn(self, inner: torch.Size) -> torch.Size:
        """Determine the batch size after the transform."""
        env = self._env()
        if self.reshape_fn is None:
            if env is not None and (inner or env.base_env.batch_locked):
                why = f"has batch size {tuple(inner)}" if inner else "has batch_locked = True"
                raise ValueError(
                    "BatchSizeTransform(batch_size=...) is for a stateless env without a batch size, whose _step takes "
                    f"data of any, and this {type(env.base_env).__name__} {why}. Fix: SerialEnv(n, make_env), or "
                    "BatchSizeTransform(reshape_fn=...)."
                )
        elif inner != self._inner:
            count = torch.arange(inner.numel()).reshape(inner)
            result = self.reshape_fn(TensorDict({"number": count}, inner))
            numbers = result.get("number")
            if result.batch_size.numel() != inner.numel() or not torch.equal(numbers.flatten(), count.flatten()):
                raise ValueError(
                    f"reshape_fn must keep the order of the envs, but turned {inner.numel()} envs, numbered from 0, "
                    f"into {numbers.flatten().tolist()}. Fix: reshape, flatten, unflatten, squeeze or unsqueeze."
                )
            self._inner, self._outer = inner, result.batch_size
        return inner

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """Return the batch size after the transform."""
        return batch_size if self._outer is None else self._outer

    def _forget(self) -> None:
        super()._forget()
        self._inner, self._outer = None, self.batch_size

    def __repr__(self) -> str:
        return f"BatchSizeTransform(batch_size={None if self.batch_size is None else tuple(self.batch_size)})"
