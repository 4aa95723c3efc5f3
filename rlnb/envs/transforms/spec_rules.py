"""What a transform does to the specs of an env: by default, to each value's spec what it does to the value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from rlnb.data import Composite, TensorSpec
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.placement import Placed

_OUTPUT = {
    "full_observation_spec": "transform_observation_spec",
    "full_reward_spec": "transform_reward_spec",
    "full_done_spec": "transform_done_spec",
}
_INPUT = {"full_action_spec": "transform_action_spec", "full_state_spec": "transform_state_spec"}


#: A method of a transform that takes a spec and returns one.
_SpecMethod = Callable[[Any, Any], TensorSpec]


def _apply_to_composite(function: _SpecMethod) -> _SpecMethod:
    """Decorate ``transform_observation_spec`` and its like, so that they are written for the spec of one value.

    Args:
        function: takes the transform and the spec of one of its ``in_keys``, and returns that of the ``out_key``.

    Returns:
        A method that takes a Composite, and calls ``function`` for each of ``in_keys`` that is in it; or the spec of
        one value.

    Example:
        >>> from rlnb.data import Bounded, Unbounded
        >>> from rlnb.envs.transforms import Transform
        >>> class Sine(Transform):
        ...     def _apply_transform(self, value):
        ...         return value.sin()
        ...     @_apply_to_composite
        ...     def transform_observation_spec(self, observation_spec):
        ...         return Bounded(-1, 1, shape=observation_spec.shape, dtype=observation_spec.dtype)
        >>> sine = Sine(in_keys=["angle"], out_keys=["sine"])
        >>> list(sine.transform_observation_spec(Composite(angle=Unbounded(shape=(2,)))).keys())
        ['angle', 'sine']
    """

    @functools.wraps(function)
    def method(self: Any, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, Composite):
            return function(self, spec)
        changed = spec.clone().unlock_()
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            member = spec.get(in_key)
            if member is not None and not isinstance(member, Composite):
                changed.set(out_key, function(self, member.clone()))
        return changed

    return method


def _apply_to_composite_inv(function: _SpecMethod) -> _SpecMethod:
    """Decorate ``transform_action_spec``, ``transform_state_spec`` or ``transform_input_spec`` likewise.

    Args:
        function: takes the transform and the spec of one of its ``in_keys_inv``, and returns that of the
            ``out_key_inv``, which takes its place.

    Returns:
        A method that takes a Composite, or the spec of one value; see ``_apply_to_composite``.
    """

    @functools.wraps(function)
    def method(self: Any, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, Composite):
            return function(self, spec)
        changed = spec.clone().unlock_()
        groups = [changed[name] for name in _INPUT if name in changed] or [changed]
        for group in groups:
            _move_inputs(self, group, lambda member: function(self, member))
        return changed

    return method


def _move_inputs(transform: Any, composite: Composite, change: Callable[[TensorSpec], TensorSpec]) -> None:
    """Put what ``change`` makes of the specs of ``in_keys_inv`` under ``out_keys_inv``, in their place."""
    pairs = zip(transform.in_keys_inv, transform.out_keys_inv, strict=True)
    found = [(in_key, out_key, composite.get(in_key)) for in_key, out_key in pairs]
    found = [(in_key, out_key, spec) for in_key, out_key, spec in found if spec is not None]
    for in_key, out_key, _ in found:
        if in_key != out_key:
            remove_spec(composite, as_tuple(in_key))
    for _, out_key, spec in found:
        composite.set(out_key, change(spec.clone()))


def remove_spec(composite: Composite, path: tuple[str, ...]) -> None:
    """Remove an entry, and the Composites above it that are empty then.

    Args:
        composite: changed in place.
        path: of the entry.
    """
    composite.pop(as_key(path))
    if len(path) > 1:
        above = composite[as_key(path[:-1])]
        if isinstance(above, Composite) and above.is_empty():
            remove_spec(composite, path[:-1])


class SpecRules(Placed):
    """The part of :class:`Transform` that changes specs.

    The specs of an env come from its base env and pass through the transforms in order, each time that one of them
    changes. So these methods are also where a transform learns the keys of its env (``_learn_output``,
    ``_learn_input``).
    """

    if TYPE_CHECKING:
        in_keys: list[NestedKey]
        out_keys: list[NestedKey]
        in_keys_inv: list[NestedKey]
        out_keys_inv: list[NestedKey]

    def __init__(self) -> None:
        super().__init__()
        self._known: frozenset[tuple[str, ...]] | None = None
        self._states: frozenset[NestedKey] = frozenset()
        self._reward_specs: dict[NestedKey, TensorSpec] = {}

    # One value ----------------------------------------------------------------------------------------------------

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        """Return the spec of what ``_apply_transform`` makes of a value of ``spec``."""
        return spec

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        """Return the spec of what ``_inv_apply_transform`` must be given to make a value of ``spec``."""
        return spec

    # One composite ------------------------------------------------------------------------------------------------

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Change the spec of the observations.

        Args:
            observation_spec: a Composite, unlocked and of its own. A direct call may give the spec of one value, too.

        Returns:
            The spec of the observations after the transform: the same object, or a new Composite; of one value, its
            spec.
        """
        return self._forward_specs(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Change the spec of the rewards; see :meth:`transform_observation_spec`."""
        return self._forward_specs(reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Change the spec of the end signals; see :meth:`transform_observation_spec`."""
        return self._forward_specs(done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Change the spec of the actions: from what the env below takes to what this one takes.

        Args:
            action_spec: a Composite, unlocked and of its own.

        Returns:
            The spec of the actions before the inverse; it may be the same object.
        """
        return self._inverse_specs(action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Change the spec of the inputs that are no actions; see :meth:`transform_action_spec`."""
        return self._inverse_specs(state_spec)

    def _forward_specs(self, composite: Composite) -> Composite:
        if not isinstance(composite, Composite):
            return self._leaf_spec(composite, self.in_keys, self._apply_to_spec)
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            spec = composite.get(in_key)
            if spec is not None:
                composite.set(out_key, self._apply_to_spec(spec))
        return composite

    def _inverse_specs(self, composite: Composite) -> Composite:
        if not isinstance(composite, Composite):
            return self._leaf_spec(composite, self.in_keys_inv, self._inv_apply_to_spec)
        _move_inputs(self, composite, self._inv_apply_to_spec)
        return composite

    def _leaf_spec(self, spec: Any, keys: list[NestedKey], change: Callable[[TensorSpec], TensorSpec]) -> Any:
        """Change the spec of one value, if the transform changes values at all."""
        return change(spec) if keys else spec

    def _need_composite(self, spec: Any) -> None:
        """Refuse the spec of one value, where entries are added or removed."""
        if not isinstance(spec, Composite):
            raise ValueError(
                f"{type(self).__name__} adds or removes entries, and takes a Composite spec, but got a "
                f"{type(spec).__name__}. Fix: Composite(observation=spec)."
            )

    # All of them --------------------------------------------------------------------------------------------------

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Change the specs of all that the env gives.

        Args:
            output_spec: with "full_observation_spec", "full_reward_spec" and "full_done_spec". It is not changed.

        Returns:
            A new Composite of the same entries.

        Raises:
            ValueError: if the transform would write over an entry that is none of its ``in_keys``.
        """
        self._learn_output(output_spec)
        self._known = frozenset(as_tuple(key)[1:] for key in output_spec.keys(True))
        rewards = output_spec["full_reward_spec"]
        self._reward_specs = {key: rewards[key] for key in rewards.keys(True, True)}
        self._refuse_overwriting(output_spec)
        return self._each(output_spec, _OUTPUT)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Change the specs of all that the env takes.

        Args:
            input_spec: with "full_action_spec" and "full_state_spec". It is not changed.

        Returns:
            A new Composite of the same entries.
        """
        self._states = frozenset(input_spec["full_state_spec"].keys(True, True))
        self._learn_input(input_spec)
        return self._each(input_spec, _INPUT)

    def _learn_output(self, output_spec: Composite) -> None:
        """Find in the specs what the transform was not told, such as its keys. The default does nothing."""

    def _learn_input(self, input_spec: Composite) -> None:
        """As ``_learn_output``, for what the env takes."""

    def _each(self, specs: Composite, methods: dict[str, str]) -> Composite:
        changed: dict[str, Any] = {}
        for name, method in methods.items():
            changed[name] = getattr(self, method)(specs[name].clone())
            if not isinstance(changed[name], Composite):
                raise TypeError(faults.no_composite(self, method, changed[name]))
        return Composite(changed, shape=changed[next(iter(methods))].shape)

    def _new_keys(self) -> list[NestedKey]:
        """The entries that the transform adds to the env, which must be new there."""
        return [key for key in self.out_keys if key not in self.in_keys]

    def _refuse_overwriting(self, output_spec: Composite) -> None:
        taken = [key for key in self._new_keys() if any(key in output_spec[name] for name in _OUTPUT)]
        if taken:
            raise ValueError(faults.overwrites(self, taken, {name: output_spec[name] for name in _OUTPUT}))

    def _forget(self) -> None:
        self._known, self._states, self._reward_specs = None, frozenset(), {}

    # The env itself -----------------------------------------------------------------------------------------------

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """Return the batch size of the env after the transform."""
        return batch_size

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """Return the device of the env's data after the transform."""
        return device


__all__ = ["SpecRules"]
