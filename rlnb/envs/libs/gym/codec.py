"""Encoding of Gymnasium's observations as tensors or array rows, and decoding of actions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.multi import MultiOneHot
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key
from rlnb.envs.gym_like import wrapped
from rlnb.envs.validation import fit_shape


class ObservationLeaf:
    """Encoder of one leaf of an observation: the entry ``key``, of a Gymnasium space and a spec.

    ``path`` are the keys and indices that lead to the leaf in the backend's observation.
    """

    def __init__(self, key: NestedKey, path: tuple[Any, ...], space: gymnasium.Space, spec: TensorSpec) -> None:
        self.key, self.path, self.space, self.spec = key, path, space, spec
        self.encoded = isinstance(spec, (OneHot, MultiOneHot))
        self.is_tensor = not isinstance(spec, NonTensor)
        self.numpy_dtype = None if spec.dtype is None else torch.empty(0, dtype=spec.dtype).numpy().dtype

    def pick(self, observation: Any) -> Any:
        """Extract this leaf's value from a whole observation."""
        for step in self.path:
            observation = observation[step]
        return observation

    def entry(self, observation: Any) -> Any:
        """Encode this leaf of a whole observation as an entry, of the spec's dtype if that is a safe cast.

        The entry is a new tensor, of the shape that the backend returned; for text and the like, a wrapped copy.
        """
        value = self.pick(observation) if self.path else observation
        if not self.is_tensor:
            return wrapped(value, self.spec.shape)
        if self.encoded:
            return self.spec.encode(int(value) if isinstance(value, (bool, np.bool_)) else value)
        tensor = torch.from_numpy(np.array(value))  # a copy: many envs write their next observation over the last
        shape, dtype = self.spec.shape, self.spec.dtype
        if dtype is not None and tensor.dtype is not dtype and torch.can_cast(tensor.dtype, dtype):
            tensor = tensor.to(dtype)
        return tensor if tensor.shape == shape else fit_shape(tensor, shape)  # such as a number for a (1,) Box

    def plain(self, rows: np.ndarray) -> tuple[Any, tuple[int, ...], np.dtype, np.ndarray] | None:
        """For a leaf that is an array in a flat dictionary: its name, shape, dtype and rows."""
        if len(self.path) != 1 or self.encoded or self.numpy_dtype is None:
            return None
        return self.path[0], tuple(self.spec.shape), self.numpy_dtype, rows

    def writer(self) -> Callable[[np.ndarray, int, Any], None]:
        """Make the function that writes this leaf into a row.

        It takes the rows, the index of a row (which must hold zeros) and the whole observation, and raises RuntimeError
        if a value does not fit the spec.
        """
        pick: Callable[[Any], Any] | None = self.pick if self.path else None
        if len(self.path) == 1:
            pick = operator.itemgetter(self.path[0])
        if isinstance(self.spec, OneHot) and self.spec.shape == (self.spec.n,):
            first, last = self.spec.start, self.spec.start + self.spec.n - 1

            def write_one_hot(rows: np.ndarray, t: int, observation: Any) -> None:
                value = observation if pick is None else pick(observation)
                try:  # as an int: numpy compares and indexes with its own integers in ten times the time
                    index = int(value) if type(value) is np.bool_ else operator.index(value)
                except TypeError:
                    index = None
                if index is None or not first <= index <= last:
                    raise RuntimeError(self._misfit(f"an integer from {first} to {last}", repr(value)))
                rows[t, index - first] = 1

            return write_one_hot
        shape, dtype, encoded = tuple(self.spec.shape), self.numpy_dtype, self.encoded
        assert dtype is not None  # rows hold only numbers

        def write(rows: np.ndarray, t: int, observation: Any) -> None:
            value = observation if pick is None else pick(observation)
            if encoded:
                value = self.spec.encode(value).numpy()
            # numpy would silently broadcast smaller values and truncate numbers
            elif type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                value = fit_shape(np.asarray(value), shape)
                if value.shape != shape or not np.can_cast(value.dtype, dtype, "same_kind"):
                    got = f"shape {list(value.shape)} and dtype {value.dtype}"
                    raise RuntimeError(self._misfit(f"shape {list(shape)} and dtype {dtype}", got))
            rows[t] = value

        return write

    def _misfit(self, expected: str, got: str) -> str:
        return (
            f"The observation {self.key!r} left its spec in the middle of a rollout: expected {expected}, got {got}. "
            "Fix: let the env return what its observation_space says; env.run_type_checks = True checks every step."
        )


def observation_name(space: gymnasium.Space) -> str:
    """Name the entry of an observation that is not a Dict.

    It is "pixels" for an image, which is a Box of shape ``[height, width, 3]`` from 0 to 255; else "observation".

    Example:
        >>> observation_name(gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8))
        'pixels'
        >>> observation_name(gymnasium.spaces.Box(0, 255, (3, 84, 84), np.uint8))
        'observation'
    """
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 3 or space.shape[-1] != 3:
        return "observation"
    return "pixels" if bool((space.low == 0).all() and (space.high == 255).all()) else "observation"


def observation_leaves(space: gymnasium.Space, spec: Composite) -> list[ObservationLeaf]:
    """List the leaves of an observation, in the order of the spec that was made from its space.

    The members of a Dict space are at the root; any other space is the entry that :func:`observation_name` names.
    """
    found: list[ObservationLeaf] = []

    def walk(space: gymnasium.Space, key: tuple[str, ...], path: tuple[Any, ...]) -> None:
        if isinstance(space, gymnasium.spaces.Dict):
            for name, member in space.spaces.items():
                walk(member, (*key, str(name)), (*path, name))
        elif isinstance(space, gymnasium.spaces.Tuple) and space.spaces:
            for i, member in enumerate(space.spaces):
                walk(member, (*key, str(i)), (*path, i))
        else:
            leaf = spec[as_key(key)]
            if leaf.dtype is None and not isinstance(leaf, NonTensor):
                raise TypeError(
                    f"The observation {as_key(key)!r} has the space {space}, whose values have no common form. "
                    "Fix: encode them as numbers, with gymnasium.wrappers.TransformObservation around the env."
                )
            found.append(ObservationLeaf(as_key(key), path, space, leaf))

    root = () if isinstance(space, gymnasium.spaces.Dict) else (observation_name(space),)
    walk(space, root, ())
    return found


def drawn_actions(spec: TensorSpec, actions: torch.Tensor) -> list[Any]:
    """Decode n actions ``[n, *spec.shape]`` that were drawn from their spec, a leaf, so they need no check.

    They become numpy integers for a Discrete space, arrays otherwise.
    """
    native = np.asarray(spec.to_numpy(actions, safe=False))
    return list(native.astype(_index_dtype(spec)) if isinstance(spec, (Categorical, OneHot)) else native)


def native_action(spec: TensorSpec, action: torch.Tensor) -> Any:
    """Decode one action, or one of each env of a vector env, ``[*spec.shape]``, into an action of the backend.

    It becomes a numpy integer for a Discrete space, an array otherwise. Raises ValueError if it is not in the spec.
    """
    if isinstance(spec, Categorical) and not action.ndim:
        index = action.item()
        if not spec.start <= index < spec.start + spec.n:
            raise ValueError(_no_such_action(spec, index))
        return _index_dtype(spec).type(index)
    action = action.detach().cpu()
    if isinstance(spec, Categorical):
        return _native_indices(spec, action)
    if isinstance(spec, OneHot):
        if action.ndim > 1:
            return _native_one_hots(spec, action)
        numbers = action.tolist()
        if numbers.count(1) != 1 or numbers.count(0) != len(numbers) - 1:
            raise ValueError(_not_one_hot(spec, numbers))
        return _index_dtype(spec).type(numbers.index(1) + spec.start)
    cast = action.to(spec.dtype)
    if cast.dtype != action.dtype and not cast.is_floating_point() and not torch.equal(cast.to(action.dtype), action):
        raise ValueError(
            f"The action {action.tolist()} does not fit into the env's dtype {spec.dtype}: the numbers would wrap "
            "around. See env.action_spec."
        )
    # The backend enforces bounds: Gaussian policies exceed them, and Gymnasium's envs clip.
    return spec.to_numpy(cast, safe=not isinstance(spec, (Bounded, Unbounded)))


def native_mapping(space: gymnasium.Space, spec: TensorSpec, action: Any) -> Any:
    """Decode an action of a Dict or Tuple space (of a single env) into the dict or tuple that the backend expects."""
    if isinstance(space, gymnasium.spaces.Dict):
        members = {name: (str(name), member) for name, member in space.spaces.items()}
        return {name: native_mapping(m, spec[key], action.get(key)) for name, (key, m) in members.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(native_mapping(m, spec[str(i)], action.get(str(i))) for i, m in enumerate(space.spaces))
    return native_action(spec, action)


def _native_one_hots(spec: OneHot, actions: torch.Tensor) -> np.ndarray:
    """Decode a batch of one-hot vectors, ``[*batch, n]``, into indices ``[*batch]``."""
    array = actions.numpy()
    ones = array == 1
    legal = (ones.sum(-1) == 1) & (np.count_nonzero(array, -1) == 1)
    if not legal.all():
        raise ValueError(_not_one_hot(spec, array[~legal][0].tolist()) + _where(legal))
    return (ones.argmax(-1) + spec.start).astype(_index_dtype(spec))


def _native_indices(spec: Categorical, actions: torch.Tensor) -> np.ndarray:
    """Decode a batch of indices, or raise if one is out of range."""
    array = actions.numpy()
    legal = (array >= spec.start) & (array < spec.start + spec.n)
    if not legal.all():
        raise ValueError(_no_such_action(spec, array[~legal][0].item()) + _where(legal))
    return array.astype(_index_dtype(spec))


def _index_dtype(spec: Categorical | OneHot) -> np.dtype:
    return _integer_dtype(spec.dtype, spec.start, spec.start + spec.n - 1)


@functools.cache
def _integer_dtype(dtype: torch.dtype | None, first: int, last: int) -> np.dtype:
    """The dtype of a Discrete space: that of its spec, or int64 if that cannot hold the numbers."""
    found = torch.empty(0, dtype=dtype).numpy().dtype
    holds = found.kind in "iu" and np.iinfo(found).min <= first and last <= np.iinfo(found).max
    return found if holds else np.dtype(np.int64)


def _where(legal: np.ndarray) -> str:
    at = np.argwhere(~legal)[0].tolist()
    return f" It is the action of env {at[0] if len(at) == 1 else at}."


def _no_such_action(spec: Categorical, index: Any) -> str:
    return (
        f"The action {index} is not an action of the env: it must be an integer from {spec.start} to "
        f"{spec.start + spec.n - 1}. "
        "Fix: is the policy's output as wide as the number of actions? See env.action_spec."
    )


def _not_one_hot(spec: OneHot, numbers: list[Any]) -> str:
    return (
        f"The action {numbers} is not one-hot: exactly one of its {spec.n} numbers must be 1 and the others 0. "
        "Fix: env.action_spec.encode(index) makes one of an index."
    )
