"""A world model as one module: a transition model and a reward model."""

from __future__ import annotations

from typing import Any

from tensordict.nn import TensorDictModuleBase, TensorDictSequential


class WorldModelWrapper(TensorDictSequential):
    """A world model of two parts: the transition model predicts the next state, the reward model rewards it.

    Args:
        transition_model: module over TensorDicts, from state and action to the next state.
        reward_model: module over TensorDicts, from the next state to the reward.

    Raises:
        TypeError: If one of them is not a module over TensorDicts.

    Example:
        >>> import torch
        >>> from rlnb.modules import MLP
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> world_model = WorldModelWrapper(
        ...     TensorDictModule(MLP(5, 4, depth=1), in_keys=["hidden", "action"], out_keys=["hidden"]),
        ...     TensorDictModule(torch.nn.Linear(4, 1), in_keys=["hidden"], out_keys=["reward"]),
        ... )
        >>> world_model(TensorDict({"hidden": torch.zeros(8, 4), "action": torch.zeros(8, 1)}, [8]))["reward"].shape
        torch.Size([8, 1])
    """

    _unwraps_as_sequence = True

    def __init__(self, transition_model: Any, reward_model: Any) -> None:
        for name, model in (("transition_model", transition_model), ("reward_model", reward_model)):
            if not isinstance(model, TensorDictModuleBase):
                raise TypeError(
                    f"{name} must be a module over TensorDicts, got a {type(model).__name__}. Fix: "
                    f"{name}=TensorDictModule(net, in_keys=['state', 'action'], out_keys=['state'])."
                )
        super().__init__(transition_model, reward_model)

    def get_transition_model_operator(self) -> TensorDictModuleBase:
        """Return the transition model."""
        parts: Any = self.module
        found: TensorDictModuleBase = parts[0]
        return found

    def get_reward_operator(self) -> TensorDictModuleBase:
        """Return the reward model."""
        parts: Any = self.module
        found: TensorDictModuleBase = parts[1]
        return found
