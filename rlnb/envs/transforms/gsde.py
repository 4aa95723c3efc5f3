"""gSDENoise: the matrix of generalized state-dependent exploration, drawn anew with each episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlnb.data import Composite, Unbounded
from rlnb.envs.transforms.primer import TensorDictPrimer


class gSDENoise(TensorDictPrimer):
    """Adds "_eps_gSDE", a matrix of standard normal numbers that is drawn at each reset and stays for the episode.

    A policy with state-dependent exploration (Raffin and others, 2021) multiplies it with its features, so that its
    noise is a function of the state.

    Args:
        state_dim: the number of features.
        action_dim: the size of an action. Without both, the entry is a placeholder, one 0, for a policy that makes its
            own matrix in the first step.
        shape: the batch size of the env, where its specs are to begin with it. Default: it is found out.
        **kwargs: those of :class:`TensorDictPrimer`.

    Raises:
        ValueError: if only one of the dimensions is given.

    Example:
        >>> from rlnb.envs import PendulumEnv, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), gSDENoise(state_dim=3, action_dim=1))
        >>> noise = env.rollout(3)["_eps_gSDE"]
        >>> noise.shape, bool((noise == noise[0]).all())
        (torch.Size([3, 1, 3]), True)
    """

    def __init__(
        self,
        state_dim: int | None = None,
        action_dim: int | None = None,
        shape: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        if (state_dim is None) != (action_dim is None):
            raise ValueError(
                f"gSDENoise needs both state_dim and action_dim, or none of them, and got state_dim={state_dim} and "
                f"action_dim={action_dim}."
            )
        batch = tuple(shape or ())
        lazy = state_dim is None or action_dim is None
        features = (1,) if lazy else (action_dim, state_dim)
        primers = Composite({"_eps_gSDE": Unbounded(shape=(*batch, *features))}, shape=batch)
        super().__init__(primers, random=None if lazy else True, **kwargs)
        self.state_dim, self.action_dim = state_dim, action_dim

    def __repr__(self) -> str:
        return f"gSDENoise(state_dim={self.state_dim}, action_dim={self.action_dim})"


__all__ = ["gSDENoise"]
