"""What a transform does to the specs of an env: by default, to each value's spec what it does to the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from rlnb.data import Composite, TensorSpec
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.placement import Placed

_OUTPUT = {
    "full_observation_spec": "transform_observation_spec",
    "full_reward_spec": "transform_reward_spec",
    "full_done_spec": "transform_done_spec",
}
_INPUT = {"full_action_spec": "transform_action_spec", "full_state_spec": "transform_state_spec"}


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
            observation_spec: a Composite, unlocked and of its own.

        Returns:
            The spec of the observations after the transform; it may be the same object.
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
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            spec = composite.get(in_key)
            if spec is not None:
                composite.set(out_key, self._apply_to_spec(spec))
        return composite

    def _inverse_specs(self, composite: Composite) -> Composite:
        for in_key, out_key in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            spec = composite.get(in_key)
            if spec is not None:
                composite.set(out_key, self._inv_apply_to_spec(spec))
        return composite

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
        self._known, self._states = None, frozenset()

    # The env itself -----------------------------------------------------------------------------------------------

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """Return the batch size of the env after the transform."""
        return batch_size

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """Return the device of the env's data after the transform."""
        return device


__all__ = ["SpecRules"]
