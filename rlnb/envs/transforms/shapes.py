"""Shape transforms: ``FlattenObservation``, ``UnsqueezeTransform``, ``SqueezeTransform`` and ``PermuteTransform``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.transform import Keys, ObservationTransform, Transform


class ShapeTransform(Transform):
    """Base class of transforms that rearrange the dimensions of values.

    A subclass implements ``_change`` and, for an inverse, ``_change_back``. Both take the number of dimensions to
    rearrange, because tensors of a spec may have more dimensions at the end.
    """

    _inverts_whole = False
    _n_batch = 0

    def _pair_up(self) -> None:
        super()._pair_up()
        if not self.in_keys and not self.in_keys_inv:
            name = type(self).__name__
            raise ValueError(
                f"{name} has neither in_keys nor in_keys_inv, so it would change nothing. Fix: "
                f"{name}(..., in_keys=['observation'])."
            )

    def _change(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        """Rearrange the first ``ndim`` dimensions."""
        raise NotImplementedError

    def _change_back(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        """Undo ``_change``."""
        raise NotImplementedError

    def _at(self, dim: int, ndim: int, value: torch.Tensor, reach: int = 0) -> int:
        """Return the index of a dimension: negative ones count from the end, others after the batch dimensions.

        ``ndim`` is the number of dimensions of the value, and ``reach`` how many more the result has.
        """
        at = dim + ndim + reach if dim < 0 else dim + self._n_batch
        if not self._n_batch <= at < ndim + reach:
            raise ValueError(
                f"{type(self).__name__} got dimension {dim}, and the value has shape {tuple(value.shape[:ndim])}, "
                f"whose first {self._n_batch} are batch dimensions. Fix: a dimension from {self._n_batch - ndim} "
                "to -1, or other in_keys."
            )
        return at

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return self._change(value, value.ndim)

    def _inv_apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return self._change_back(value, value.ndim)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self.__dict__["_n_batch"] = next_tensordict.ndim
        return super()._call(next_tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.__dict__["_n_batch"] = tensordict.ndim
        return super()._inv_call(tensordict)

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.__dict__["_n_batch"] = tensordict.ndim
        return super()._reset_env_preprocess(tensordict)

    @property
    def _changes_resets(self) -> bool:
        return any(key in self._states for key in self.in_keys_inv)

    def _forward_specs(self, composite: Composite) -> Composite:
        self.__dict__["_n_batch"] = composite.ndim if isinstance(composite, Composite) else 0
        return super()._forward_specs(composite)

    def _inverse_specs(self, composite: Composite) -> Composite:
        self.__dict__["_n_batch"] = composite.ndim if isinstance(composite, Composite) else 0
        return super()._inverse_specs(composite)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec._event_dims:  # a rearranged one-hot encoding may not be a one-hot encoding
            blank = self._apply_transform(spec.zero())
            return Unbounded(shape=blank.shape, dtype=blank.dtype, device=spec.device)
        return self._mapped(spec)

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec._event_dims:
            raise ValueError(
                f"{type(self).__name__} would change the shape of an input of the env that is a {type(spec).__name__} "
                f"of shape {tuple(spec.shape)}: its last dimension is the encoding of one choice. Fix: leave it out of "
                "in_keys_inv, or use an env with categorical_action_encoding=True."
            )
        return self._mapped(spec)

    def _mapped(self, spec: TensorSpec) -> TensorSpec:
        return spec._mapped(lambda tensor: self._change(tensor, spec.ndim))


class FlattenObservation(ObservationTransform, ShapeTransform):
    """Flattens several dimensions into one.

    Args:
        first_dim: the first of them, negative, counted from the end.
        last_dim: the last of them, negative, counted from the end.
        in_keys: the observations. Default: "pixels".
        allow_positive_dim: whether non-negative dimensions are accepted. They are counted after the batch dimensions.

    Raises:
        ValueError: If a dimension is not negative, or the last one comes before the first.

    Example:
        >>> from tensordict import TensorDict
        >>> FlattenObservation(-3, -1)(TensorDict({"pixels": torch.zeros(3, 4, 5)}))["pixels"].shape
        torch.Size([60])
    """

    _shown = ("first_dim", "last_dim", "keys")

    def __init__(
        self,
        first_dim: int,
        last_dim: int,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        allow_positive_dim: bool = False,
    ) -> None:
        if not allow_positive_dim:
            errors.assert_negative(type(self), True, first_dim=first_dim, last_dim=last_dim)
        if (first_dim < 0) == (last_dim < 0) and first_dim > last_dim:
            raise ValueError(
                f"FlattenObservation merges the dimensions from first_dim to last_dim, and first_dim={first_dim} comes "
                f"after last_dim={last_dim}. Fix: FlattenObservation({last_dim}, {first_dim})."
            )
        super().__init__("pixels" if in_keys is None else in_keys, out_keys)
        self.first_dim, self.last_dim, self.allow_positive_dim = first_dim, last_dim, allow_positive_dim

    def _change(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return value.flatten(self._at(self.first_dim, ndim, value), self._at(self.last_dim, ndim, value))


class UnsqueezeTransform(ShapeTransform):
    """Adds a dimension of size 1; its inverse removes it.

    Args:
        dim: index of the new dimension, negative, counted from the end of the result.
        allow_positive_dim: whether a non-negative ``dim`` is accepted. It is counted after the batch dimensions.
        in_keys: entries that get the dimension.
        in_keys_inv: inputs of the env that have the dimension outside, and lose it.

    Raises:
        ValueError: If ``dim`` is not negative, or there are no keys.

    Example:
        >>> from tensordict import TensorDict
        >>> unsqueeze = UnsqueezeTransform(-2, in_keys=["observation"])
        >>> unsqueeze(TensorDict({"observation": torch.zeros(4)}))["observation"].shape
        torch.Size([1, 4])
    """

    _shown = ("dim", "in_keys", "out_keys", "in_keys_inv", "out_keys_inv")

    def __init__(
        self,
        dim: int,
        *,
        allow_positive_dim: bool = False,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        if not allow_positive_dim:
            errors.assert_negative(type(self), True, dim=dim)
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.dim, self.allow_positive_dim = dim, allow_positive_dim

    def _unsqueezed(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return value.unsqueeze(self._at(self.dim, ndim, value, 1))

    def _squeezed(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        # As torch.squeeze: dimensions of other sizes are kept. Data of a buffer may lack the dimension.
        at = self.dim + ndim if self.dim < 0 else self.dim + self._n_batch
        if 0 <= at < min(self._n_batch, ndim) and value.shape[at] != 1:
            return value
        at = self._at(self.dim, ndim, value)
        return value.squeeze(at) if value.shape[at] == 1 else value

    _change, _change_back = _unsqueezed, _squeezed


class SqueezeTransform(UnsqueezeTransform):
    """Removes a dimension of size 1; its inverse adds it. See :class:`UnsqueezeTransform`.

    Args:
        dim: index of the dimension, negative, counted from the end.
        allow_positive_dim: whether a non-negative ``dim`` is accepted. It is counted after the batch dimensions.
        in_keys: entries that lose the dimension.
        out_keys: where the results go. Default: ``in_keys``.
        in_keys_inv: inputs of the env that lack the dimension outside, and get it.
        out_keys_inv: names of these inputs outside. Default: ``in_keys_inv``.

    Raises:
        ValueError: If ``dim`` is not negative, or there are no keys.

    Example:
        >>> from tensordict import TensorDict
        >>> squeeze = SqueezeTransform(-2, in_keys=["observation"])
        >>> squeeze(TensorDict({"observation": torch.zeros(1, 4)}))["observation"].shape
        torch.Size([4])
    """

    _change, _change_back = UnsqueezeTransform._squeezed, UnsqueezeTransform._unsqueezed


class PermuteTransform(ShapeTransform):
    """Permutes the last dimensions; its inverse restores their order.

    Args:
        dims: the last dimensions, all negative, in their new order: ``[-1, -3, -2]`` puts the channels of an image
            ``(H, W, C)`` first.
        in_keys: entries to permute.
        in_keys_inv: inputs of the env that are permuted outside, and restored.

    Raises:
        ValueError: If ``dims`` are not the last dimensions, each once, or there are no keys.

    Example:
        >>> from tensordict import TensorDict
        >>> permute = PermuteTransform([-1, -3, -2], in_keys=["pixels"])
        >>> permute(TensorDict({"pixels": torch.zeros(4, 5, 3)}))["pixels"].shape
        torch.Size([3, 4, 5])
    """

    _shown = ("dims", "keys")

    def __init__(
        self,
        dims: Sequence[int],
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        self.dims = list(dims)
        if sorted(self.dims) != list(range(-len(self.dims), 0)) or not self.dims:
            raise ValueError(
                f"PermuteTransform takes the last dimensions, negative and each once, in their new order, and got "
                f"{self.dims}. Fix: [-1, -3, -2] puts the last of three dimensions first."
            )
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self._back = [self.dims.index(dim) - len(self.dims) for dim in range(-len(self.dims), 0)]

    def _permuted(self, value: torch.Tensor, ndim: int, dims: list[int]) -> torch.Tensor:
        lead = ndim - len(dims)
        if lead < self._n_batch:
            raise ValueError(
                f"{type(self).__name__} permutes the last {len(self.dims)} dimensions, and the value has shape "
                f"{tuple(value.shape[:ndim])}, whose first {self._n_batch} are batch dimensions. Fix: fewer "
                "dims, or other in_keys."
            )
        return value.permute(*range(lead), *(dim + ndim for dim in dims), *range(ndim, value.ndim))

    def _change(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return self._permuted(value, ndim, self.dims)

    def _change_back(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return self._permuted(value, ndim, self._back)
