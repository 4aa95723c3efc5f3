"""Conversion between data of jax and tensors, for libraries whose environments are functions of jax.

Memory is never shared in the direction from jax to torch: jax may reuse what it returned, and TensorDicts are written
to. In the other direction jax reads the memory of tensors while a function runs, and has ended when its results are
converted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import as_key

_SIGNED = {np.dtype(f"uint{bits}"): np.dtype(f"int{bits}") for bits in (16, 32, 64)}
"""Torch computes little with unsigned integers, so their bits are read as signed ones, as TorchRL does."""


def to_torch(array: Any) -> torch.Tensor:
    """Copy an array of jax into a tensor, on the same device; the bits of unsigned integers become signed ones.

    Example:
        .. code-block:: python

            to_torch(jax.random.PRNGKey(3))  # tensor([0, 3], dtype=torch.int32)
    """
    if hasattr(array, "devices") and any(device.platform != "cpu" for device in array.devices()):
        signed = _SIGNED.get(np.dtype(array.dtype))
        return torch.from_dlpack(array if signed is None else array.view(signed)).clone()
    copied = np.array(array)
    return torch.from_numpy(copied.view(_SIGNED.get(copied.dtype, copied.dtype)))


def to_jax(tensor: torch.Tensor, dtype: Any) -> Any:
    """View a tensor as an array that a function of jax takes, without a copy on the CPU, as ``dtype``."""
    tensor = tensor.detach()
    if tensor.is_cuda:
        import jax

        if jax.default_backend() == "gpu":
            array = jax.dlpack.from_dlpack(tensor.contiguous())
            return array.view(dtype) if np.dtype(dtype) in _SIGNED else array.astype(dtype)
    array = tensor.cpu().numpy()
    return array.view(dtype) if np.dtype(dtype) in _SIGNED else np.asarray(array, dtype)


class JaxTree:
    """The structure of a pytree of jax, whose leaves become the entries of a TensorDict and back.

    The path of a leaf is its key: the fields of dataclasses and named tuples, the keys of dictionaries, the positions
    of lists. An array by itself has the key "".

    Args:
        example: a pytree of arrays, or of their shapes as ``jax.eval_shape`` returns it, of a single env.
        numbers_have_shape: give numbers the shape ``[1]`` instead of ``[]``.

    Attributes:
        paths: the path of each leaf.

    Example:
        .. code-block:: python

            tree = JaxTree(jax.eval_shape(env.reset, jax.random.PRNGKey(0)))
            tree.spec(torch.Size([]), None)["pipeline_state", "q"].shape
    """

    def __init__(self, example: Any, numbers_have_shape: bool = False) -> None:
        from jax.tree_util import tree_flatten_with_path

        found, self._structure = tree_flatten_with_path(example)
        self.paths = [tuple(map(_name, path)) for path, _ in found]
        self._leaves = [(tuple(leaf.shape), np.dtype(leaf.dtype)) for _, leaf in found]
        self._pad = [(1,) if numbers_have_shape and not shape else () for shape, _ in self._leaves]

    def spec(self, batch_size: torch.Size, device: torch.device | None) -> Any:
        """Return the spec of the data of a batch: a composite, or a leaf if the pytree is an array."""
        leaves = [
            _leaf_spec((*batch_size, *shape, *pad), dtype, device)
            for (shape, dtype), pad in zip(self._leaves, self._pad, strict=True)
        ]
        if self.paths == [()]:
            return leaves[0]
        spec = Composite(shape=batch_size, device=device)
        for path, leaf in zip(self.paths, leaves, strict=True):
            for depth in range(1, len(path)):
                if as_key(path[:depth]) not in spec.keys(True):
                    spec[as_key(path[:depth])] = Composite(shape=batch_size, device=device)
            spec[as_key(path)] = leaf
        return spec

    def tensors(self, tree: Any) -> list[torch.Tensor]:
        """Copy the leaves of a pytree of this structure into tensors."""
        return self.padded([to_torch(leaf) for leaf in self.leaves(tree)])

    def padded(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Give numbers their shape."""
        return [t.unsqueeze(-1) if pad else t for t, pad in zip(tensors, self._pad, strict=True)]

    def flat(self, tensordict: TensorDictBase) -> list[torch.Tensor]:
        """Collect the leaves from their entries, with the shapes of jax.

        Raises:
            KeyError: If one is missing.
        """
        found = [tensordict.get(as_key(path), None) for path in self.paths]
        missing = [as_key(path) for path, tensor in zip(self.paths, found, strict=True) if tensor is None]
        if missing:
            raise KeyError(f"The state of the env lacks {missing}.")
        return [tensor.squeeze(-1) if pad else tensor for tensor, pad in zip(found, self._pad, strict=True)]

    def nested(self, tensors: Sequence[torch.Tensor], batch_size: torch.Size) -> Any:
        """Make a TensorDict of leaves, or the one leaf of an array."""
        if self.paths == [()]:
            return tensors[0]
        source: dict[str, Any] = {}
        for path, tensor in zip(self.paths, tensors, strict=True):
            place = source
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = tensor
        return fast_tensordict(source, batch_size)

    def leaves(self, tree: Any) -> list[Any]:
        """Flatten a pytree of this structure."""
        return self._structure.flatten_up_to(tree)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Rebuild the pytree from its leaves."""
        return self._structure.unflatten(leaves)

    def arrays(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """View leaves as arrays that a function of jax takes."""
        return [to_jax(tensor, dtype) for tensor, (_, dtype) in zip(tensors, self._leaves, strict=True)]


def batched(function: Callable[..., Any], batch_size: torch.Size) -> Callable[..., Any]:
    """Vectorize a function of one env over the dimensions of a batch."""
    import jax

    for _ in batch_size:
        function = jax.vmap(function)
    return function


def split_key(key: Any, batch_size: torch.Size) -> tuple[Any, Any]:
    """Return a random key for later, and one for each env of a batch, ``[*batch_size, 2]``."""
    import jax

    later, now = jax.random.split(key)
    return later, jax.random.split(now, batch_size.numel()).reshape(*batch_size, -1) if batch_size else now


def new_key(seed: int | None) -> Any:
    """Make a random key from a seed, or an unpredictable one."""
    import jax

    return jax.random.PRNGKey(int(np.random.SeedSequence(seed).generate_state(1)[0]) if seed is None else seed % 2**32)


class Differentiable:
    """A function of jax over flat leaves that torch can differentiate, in its floating-point inputs and outputs.

    The derivative is one more compiled function, which computes the step again: nothing of jax is kept for each step.

    Args:
        function: takes arrays and returns a list of arrays.
    """

    def __init__(self, function: Callable[..., list[Any]]) -> None:
        import jax

        self.function = jax.jit(function)

        def pull(which: tuple[bool, ...], inputs: list[Any], cotangents: list[Any]) -> Any:
            def floats_to_floats(floats: list[Any]) -> list[Any]:
                left = iter(floats)
                outputs = function(*[next(left) if own else x for own, x in zip(which, inputs, strict=True)])
                return [x for x in outputs if jax.numpy.issubdtype(x.dtype, jax.numpy.floating)]

            floats = [x for own, x in zip(which, inputs, strict=True) if own]
            return jax.vjp(floats_to_floats, floats)[1](cotangents)[0]

        self.pull = jax.jit(pull, static_argnums=0)

    def __call__(self, tensors: Sequence[torch.Tensor], arrays: Sequence[Any]) -> list[torch.Tensor]:
        """Return the outputs for arrays that are views of these tensors, with a gradient to the tensors."""
        return list(_Call.apply(self, list(arrays), *tensors))


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Differentiable, arrays: list[Any], *tensors: torch.Tensor) -> Any:
        outputs = tuple(to_torch(output) for output in function.function(*arrays))
        ctx.function, ctx.which = function, tuple(t.is_floating_point() for t in tensors)
        # Copies: the tensors may have been written to when the gradient is computed.
        ctx.arrays = [np.array(array) if isinstance(array, np.ndarray) else array for array in arrays]
        ctx.floats = [output.is_floating_point() for output in outputs]
        ctx.mark_non_differentiable(*[output for output in outputs if not output.is_floating_point()])
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        cotangents = [to_jax(g, np.float32) for g, own in zip(grads, ctx.floats, strict=True) if own]
        found = iter(ctx.function.pull(ctx.which, ctx.arrays, cotangents))
        return (None, None, *[to_torch(next(found)) if own else None for own in ctx.which])


def _leaf_spec(shape: tuple[int, ...], dtype: np.dtype, device: torch.device | None) -> TensorSpec:
    kind = _torch_dtype(_SIGNED.get(dtype, dtype))
    if kind is torch.bool:
        return Binary(shape=shape, dtype=kind, device=device)
    return Unbounded(shape=shape, dtype=kind, device=device)


@functools.cache
def _torch_dtype(dtype: np.dtype) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


def _name(key: Any) -> str:
    """Return what a part of a path of jax is called: of an attribute, a key of a dictionary or a position."""
    return str(next(getattr(key, what) for what in ("name", "key", "idx") if hasattr(key, what)))
