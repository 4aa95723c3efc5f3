"""The specs of one env of a batch: those of the env without its batch dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlnb.data import TensorSpec

if TYPE_CHECKING:
    from rlnb.envs.specs import EnvSpecs


class Unbatched:
    """A spec property of an env without the batch dimensions; setting it expands the spec to the batch.

    Args:
        name: of the property with the batch dimensions.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = f"``{name}`` without the batch dimensions."

    def __get__(self, env: EnvSpecs | None, owner: type | None = None) -> Any:
        """Index the first env of the batch."""
        if env is None:
            return self
        spec = getattr(env, self.name)
        return spec[(0,) * env.batch_dims] if env.batch_dims else spec

    def __set__(self, env: EnvSpecs, spec: TensorSpec) -> None:
        """Give every env of the batch this spec."""
        setattr(env, self.name, spec.expand(*env.batch_size, *spec.shape))


class UnbatchedSpecs:
    """``single_...`` and ``..._unbatched``: two names of each, as the documentation has had both."""

    single_action_spec = action_spec_unbatched = Unbatched("action_spec")
    single_observation_spec = observation_spec_unbatched = Unbatched("observation_spec")
    single_reward_spec = reward_spec_unbatched = Unbatched("reward_spec")
    single_done_spec = done_spec_unbatched = Unbatched("done_spec")
    single_state_spec = state_spec_unbatched = Unbatched("state_spec")
    single_full_action_spec = full_action_spec_unbatched = Unbatched("full_action_spec")
    single_full_observation_spec = full_observation_spec_unbatched = Unbatched("full_observation_spec")
    single_full_reward_spec = full_reward_spec_unbatched = Unbatched("full_reward_spec")
    single_full_done_spec = full_done_spec_unbatched = Unbatched("full_done_spec")
    single_full_state_spec = full_state_spec_unbatched = Unbatched("full_state_spec")
    single_input_spec = input_spec_unbatched = Unbatched("input_spec")
    single_output_spec = output_spec_unbatched = Unbatched("output_spec")
