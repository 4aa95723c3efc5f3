"""Policy that draws random actions from a spec."""

from __future__ import annotations

from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec
from rlnb.data.ted.keys import NestedKey


class RandomPolicy:
    """Draws actions from a spec.

    Args:
        action_spec: of the action; a composite writes all its keys.
        action_key: where a leaf's action is written.

    Example:
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> policy = RandomPolicy(Bounded(-1.0, 1.0, shape=(2,)))
        >>> policy(TensorDict({}))["action"].shape
        torch.Size([2])
    """

    def __init__(self, action_spec: TensorSpec, action_key: NestedKey = "action") -> None:
        if not isinstance(action_spec, TensorSpec):
            raise TypeError(
                f"RandomPolicy needs a spec to draw from and got a {type(action_spec).__name__}. "
                "Fix: RandomPolicy(env.action_spec)."
            )
        self.action_spec = action_spec
        self.action_key = action_key

    @property
    def in_keys(self) -> list[NestedKey]:
        """Nothing is read."""
        return []

    @property
    def out_keys(self) -> list[NestedKey]:
        """The keys of the actions."""
        if isinstance(self.action_spec, Composite):
            return list(self.action_spec.keys(True, True))
        return [self.action_key]

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write an action.

        Args:
            tensordict: written to.

        Returns:
            The same TensorDict.
        """
        missing = tensordict.ndim - len(self.action_spec.shape) if isinstance(self.action_spec, Composite) else 0
        action = self.action_spec.rand(tensordict.batch_size[: max(missing, 0)])
        if isinstance(self.action_spec, Composite):
            return tensordict.update(action)
        return tensordict.set(self.action_key, action)

    def __repr__(self) -> str:
        return f"RandomPolicy(action_spec={self.action_spec}, action_key={self.action_key!r})"


__all__ = ["RandomPolicy"]
