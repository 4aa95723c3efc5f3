"""``Affine``, the base class of transforms that shift and scale numbers."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.transforms.bounds import mapped_spec
from rlnb.envs.transforms.transform import Keys, Transform

Number = float | torch.Tensor


class Affine(Transform):
    """Computes ``value * scale + loc``, or ``(value - loc) / scale``; the inverse undoes it.

    Subclasses document the arguments. ``loc`` and ``scale`` are buffers.

    Raises:
        TypeError: If ``loc`` or ``scale`` is not a number.
        ValueError: If only one of them is given, or a scale is 0.
    """

    loc: torch.Tensor | None
    scale: torch.Tensor | None

    def __init__(
        self,
        loc: Number | None,
        scale: Number | None,
        standard_normal: bool = False,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.standard_normal = bool(standard_normal)
        if (loc is None) != (scale is None):
            missing = "loc" if loc is None else "scale"
            raise ValueError(f"{type(self).__name__} needs both loc and scale or neither, and {missing} is None.")
        self.register_buffer("loc", None if loc is None else self._tensor("loc", loc))
        self.register_buffer("scale", None if scale is None else self._tensor("scale", scale))
        if self.scale is not None and not bool((self.scale != 0).all()):
            raise ValueError(f"{type(self).__name__} cannot scale by 0, got scale={scale!r}.")

    def _tensor(self, name: str, value: Any) -> torch.Tensor:
        try:
            tensor = torch.as_tensor(value)
        except (TypeError, RuntimeError, ValueError):
            raise TypeError(
                f"{type(self).__name__} takes a number or a tensor for {name}, and got a {type(value).__name__}."
            ) from None
        return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())

    # Data ---------------------------------------------------------------------------------------------------------

    def _apply_transform(self, value: Any) -> torch.Tensor:
        loc, scale = self._loc_and_scale(value)
        return (value - loc) / scale if self.standard_normal else value * scale + loc

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        loc, scale = self._loc_and_scale(value)
        return value * scale + loc if self.standard_normal else (value - loc) / scale

    def _loc_and_scale(self, value: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``loc`` and ``scale`` in the dtype of a value, after checking that they fit it."""
        loc, scale = self.loc, self.scale
        if loc is None or scale is None:
            raise RuntimeError(
                f"{type(self).__name__} has no loc and scale yet. Fix: env.transform.init_stats(num_iter=1000), which "
                f"estimates them from random steps, or {type(self).__name__}(loc, scale, in_keys=[...])."
            )
        dtype = getattr(value, "dtype", None)
        if type(value) is not torch.Tensor or dtype is None or not dtype.is_floating_point:
            raise TypeError(self._not_float(f"a value of dtype {dtype}" if dtype else f"a {type(value).__name__}"))
        if loc.ndim or scale.ndim:
            self._check_shape(value.shape, loc, scale)
        return (loc, scale) if loc.dtype is scale.dtype is dtype else (loc.to(dtype), scale.to(dtype))

    def _check_shape(self, shape: torch.Size, loc: torch.Tensor, scale: torch.Tensor) -> None:
        try:
            if torch.broadcast_shapes(shape, loc.shape, scale.shape) == shape:
                return
        except RuntimeError:
            pass
        raise ValueError(
            f"{type(self).__name__} has loc of shape {tuple(loc.shape)} and scale of shape {tuple(scale.shape)}, which "
            f"do not broadcast to a value of shape {tuple(shape)}. Fix: give them the shape of the features, such as "
            f"{tuple(shape[-1:])}, or numbers."
        )

    def _not_float(self, got: str) -> str:
        return (
            f"{type(self).__name__} scales floating-point numbers, and got {got}; its keys are {self.in_keys} and "
            f"{self.in_keys_inv}. Fix: cast it first, DTypeCastTransform(dtype, torch.float32, in_keys=[...]), or "
            "leave its key out."
        )

    # Specs --------------------------------------------------------------------------------------------------------

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.dtype is None or not spec.dtype.is_floating_point:
            raise TypeError(self._not_float(f"a spec of dtype {spec.dtype}"))
        if self.loc is None or self.scale is None:
            return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)  # bounds are not known yet
        if -1 not in spec.shape:
            self._check_shape(spec.shape, self.loc, self.scale)
        device = self.loc.device
        with torch.no_grad():
            return mapped_spec(spec, lambda bound: self._apply_transform(bound.to(device)).to(bound.device))

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        # The inverse maps outer values to inner ones, so the outer bounds are the forward results of the inner bounds.
        return self._apply_to_spec(spec)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for name in ("loc", "scale"):
            stored = state_dict.get(f"{prefix}{name}")
            if stored is not None and getattr(self, name) is None:
                self.register_buffer(name, torch.empty_like(stored))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


__all__ = ["Affine", "Number"]
