"""FlattenObservation, UnsqueezeTransform, SqueezeTransform and PermuteTransform: values in another shape."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec, Unbounded
from rlnb.envs.transforms import shape_faults as faults
from rlnb.envs.transforms.observation import ObservationTransform
from rlnb.envs.transforms.transform import Keys, Transform


class ShapeTransform(Transform):
    """The base of transforms that rearrange the dimensions of values.

    A subclass writes ``_change`` and, for an inverse, ``_change_back``. Both are given how many dimensions of the
    tensor count, for that of a spec may have more of them at its end.
    """

    _n_batch = 0

    def _pair_up(self) -> None:
        super()._pair_up()
        if not self.in_keys and not self.in_keys_inv:
            raise ValueError(faults.no_keys(self))

    def _change(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        """Rearrange the first ``ndim`` dimensions."""
        raise NotImplementedError

    def _change_back(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        """Undo ``_change``."""
        raise NotImplementedError

    def _at(self, dim: int, ndim: int, value: torch.Tensor, reach: int = 0) -> int:
        """Find a dimension of a value: from the end, or from 0 on counted after the batch dimensions.

        Args:
            dim: as the user wrote it.
            ndim: the number of dimensions.
            value: for the error.
            reach: how many more dimensions the result has.
        """
        at = dim + ndim + reach if dim < 0 else dim + self._n_batch
        if not self._n_batch <= at < ndim + reach:
            raise ValueError(faults.no_dim(self, dim, tuple(value.shape[:ndim]), self._n_batch))
        return at

    # Data ---------------------------------------------------------------------------------------------------------

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

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return bool(self.in_keys_inv)

    # Specs --------------------------------------------------------------------------------------------------------

    def _forward_specs(self, composite: Composite) -> Composite:
        self.__dict__["_n_batch"] = composite.ndim if isinstance(composite, Composite) else 0
        return super()._forward_specs(composite)

    def _inverse_specs(self, composite: Composite) -> Composite:
        self.__dict__["_n_batch"] = composite.ndim if isinstance(composite, Composite) else 0
        return super()._inverse_specs(composite)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec._event_dims:  # the encoding of a choice need not stay one
            blank = self._apply_transform(spec.zero())
            return Unbounded(shape=blank.shape, dtype=blank.dtype, device=spec.device)
        return self._mapped(spec)

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec._event_dims:
            raise ValueError(faults.encoded_choice(self, spec))
        return self._mapped(spec)

    def _mapped(self, spec: TensorSpec) -> TensorSpec:
        return spec._mapped(lambda tensor: self._change(tensor, spec.ndim))


class FlattenObservation(ObservationTransform, ShapeTransform):
    """Makes one dimension of several.

    Args:
        first_dim: the first of them, negative: counted from the end.
        last_dim: the last of them, likewise.
        in_keys: the observations. Default: "pixels".
        out_keys: where the results go. Default: ``in_keys``.
        allow_positive_dim: take dimensions from 0 on too. They are counted after the batch dimensions.

    Raises:
        ValueError: if a dimension is not negative, or the last one comes before the first.

    Example:
        >>> from tensordict import TensorDict
        >>> FlattenObservation(-3, -1)(TensorDict({"pixels": torch.zeros(3, 4, 5)}))["pixels"].shape
        torch.Size([60])
    """

    def __init__(
        self,
        first_dim: int,
        last_dim: int,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        allow_positive_dim: bool = False,
    ) -> None:
        if not allow_positive_dim:
            faults.assert_negative(type(self), first_dim=first_dim, last_dim=last_dim)
        if (first_dim < 0) == (last_dim < 0) and first_dim > last_dim:
            raise ValueError(
                f"FlattenObservation merges the dimensions from first_dim to last_dim, and first_dim={first_dim} comes "
                f"after last_dim={last_dim}. Fix: FlattenObservation({last_dim}, {first_dim})."
            )
        super().__init__("pixels" if in_keys is None else in_keys, out_keys)
        self.first_dim, self.last_dim, self.allow_positive_dim = first_dim, last_dim, allow_positive_dim

    def _change(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return value.flatten(self._at(self.first_dim, ndim, value), self._at(self.last_dim, ndim, value))

    def __repr__(self) -> str:
        return f"FlattenObservation(first_dim={self.first_dim}, last_dim={self.last_dim}, keys={self.in_keys})"


class UnsqueezeTransform(ShapeTransform):
    """Adds a dimension of size 1; its inverse removes it.

    Args:
        dim: where, negative: counted from the end of the result.
        allow_positive_dim: take a ``dim`` from 0 on too. It is counted after the batch dimensions.
        in_keys: what gets the dimension.
        out_keys: where the results go. Default: ``in_keys``.
        in_keys_inv: the inputs of the env that are given with the dimension, and lose it.
        out_keys_inv: what they are called outside. Default: ``in_keys_inv``.

    Raises:
        ValueError: if ``dim`` is not negative, or there are no keys.

    Example:
        >>> from tensordict import TensorDict
        >>> unsqueeze = UnsqueezeTransform(-2, in_keys=["observation"])
        >>> unsqueeze(TensorDict({"observation": torch.zeros(4)}))["observation"].shape
        torch.Size([1, 4])
    """

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
            faults.assert_negative(type(self), dim=dim)
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.dim, self.allow_positive_dim = dim, allow_positive_dim

    def _unsqueezed(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return value.unsqueeze(self._at(self.dim, ndim, value, 1))

    def _squeezed(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        # As torch.squeeze: a dimension of another size stays. A buffer may be given data that lacks the dimension.
        at = self.dim + ndim if self.dim < 0 else self.dim + self._n_batch
        if 0 <= at < min(self._n_batch, ndim) and value.shape[at] != 1:
            return value
        at = self._at(self.dim, ndim, value)
        return value.squeeze(at) if value.shape[at] == 1 else value

    _change, _change_back = _unsqueezed, _squeezed

    def __repr__(self) -> str:
        names = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in ('dim', *names))})"


class SqueezeTransform(UnsqueezeTransform):
    """Removes a dimension of size 1; its inverse adds it. See :class:`UnsqueezeTransform`.

    Args:
        dim: which one, negative: counted from the end.
        allow_positive_dim: take a ``dim`` from 0 on too. It is counted after the batch dimensions.
        in_keys: what loses the dimension.
        out_keys: where the results go. Default: ``in_keys``.
        in_keys_inv: the inputs of the env that are given without the dimension, and get it.
        out_keys_inv: what they are called outside. Default: ``in_keys_inv``.

    Raises:
        ValueError: if ``dim`` is not negative, or there are no keys.

    Example:
        >>> from tensordict import TensorDict
        >>> squeeze = SqueezeTransform(-2, in_keys=["observation"])
        >>> squeeze(TensorDict({"observation": torch.zeros(1, 4)}))["observation"].shape
        torch.Size([4])
    """

    _change, _change_back = UnsqueezeTransform._squeezed, UnsqueezeTransform._unsqueezed


class PermuteTransform(ShapeTransform):
    """Puts the last dimensions in another order; its inverse puts them back.

    Args:
        dims: the last dimensions, all negative, in their new order: ``[-1, -3, -2]`` puts the channels of an image
            ``(H, W, C)`` first.
        in_keys: what is permuted.
        out_keys: where the results go. Default: ``in_keys``.
        in_keys_inv: the inputs of the env that are given permuted, and put back.
        out_keys_inv: what they are called outside. Default: ``in_keys_inv``.

    Raises:
        ValueError: if ``dims`` are not the last dimensions, each once, or there are no keys.

    Example:
        >>> from tensordict import TensorDict
        >>> permute = PermuteTransform([-1, -3, -2], in_keys=["pixels"])
        >>> permute(TensorDict({"pixels": torch.zeros(4, 5, 3)}))["pixels"].shape
        torch.Size([3, 4, 5])
    """

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
            raise ValueError(faults.no_permutation(self.dims))
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        back = [self.dims.index(dim) - len(self.dims) for dim in range(-len(self.dims), 0)]
        self._back = back

    def _permuted(self, value: torch.Tensor, ndim: int, dims: list[int]) -> torch.Tensor:
        lead = ndim - len(dims)
        if lead < self._n_batch:
            raise ValueError(faults.too_few_dims(self, self.dims, tuple(value.shape[:ndim]), self._n_batch))
        return value.permute(*range(lead), *(dim + ndim for dim in dims), *range(ndim, value.ndim))

    def _change(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return self._permuted(value, ndim, self.dims)

    def _change_back(self, value: torch.Tensor, ndim: int) -> torch.Tensor:
        return self._permuted(value, ndim, self._back)

    def __repr__(self) -> str:
        return f"PermuteTransform(dims={self.dims}, keys={self.in_keys})"


__all__ = ["FlattenObservation", "PermuteTransform", "ShapeTransform", "SqueezeTransform", "UnsqueezeTransform"]
