"""``FrameSkipTransform`` and ``NoopResetEnv``, which take several steps of the base env in one step or reset."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import shallow_copy
from rlnb.data.ted.keys import DONE, as_tuple
from rlnb.envs.transforms.transform import Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv

_ATTEMPTS = 10


class FrameSkipTransform(Transform):
    """Repeats each action and sums the rewards, until the episode ends.

    In a batch, the end of one env stops the repetition for all in that step: put the transform around each env of a
    :class:`~rlnb.envs.SerialEnv` or :class:`~rlnb.envs.ParallelEnv`. Transforms before this one see every step of the
    base env, transforms after it one in ``frame_skip``.

    Args:
        frame_skip: how many times to take each action.

    Raises:
        ValueError: If ``frame_skip`` is not a positive integer.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), FrameSkipTransform(3))
        >>> env.rollout(2)["next", "reward"].flatten()
        tensor([3., 3.])
    """

    _shown = ("frame_skip",)
    _env_only = "steps an env"

    def __init__(self, frame_skip: int = 1) -> None:
        if isinstance(frame_skip, bool) or not isinstance(frame_skip, int) or frame_skip < 1:
            raise ValueError(f"frame_skip must be a positive integer, got {frame_skip!r}.")
        super().__init__()
        self.frame_skip = frame_skip
        self._given: TensorDictBase | None = None

    @property
    def invertible(self) -> bool:
        """Whether the transform is in an env, where it reads the action to repeat in :meth:`inv`."""
        return self.frame_skip > 1 and self.container is not None

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.__dict__["_given"] = tensordict
        return shallow_copy(tensordict)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        parent, given = self.parent, self._given
        if parent is None or given is None:
            return next_tensordict
        self.__dict__["_given"] = None
        for _ in range(self.frame_skip - 1):
            if _ended(parent, next_tensordict):
                break
            following = parent._step_mdp(shallow_copy(given).set("next", next_tensordict))
            for key in parent.action_keys:
                following.set(key, given.get(key))
            given, before = following, next_tensordict
            next_tensordict = parent._step(given)
            for key in parent.reward_keys:
                next_tensordict.set(key, before.get(key) + next_tensordict.get(key))
        return next_tensordict


class NoopResetEnv(Transform):
    """Takes random steps after each reset, so that episodes start in different states.

    If the episode ends during these steps, the env is reset again.

    Args:
        noops: the maximum number of steps.
        random: whether to draw the number of steps from 0 to ``noops``. If ``False``, it is ``noops``.

    Raises:
        ValueError: If ``noops`` is not a non-negative integer, or the env is a batch.

    Example:
        >>> from rlnb.envs import GridWorldEnv, StepCounter, TransformedEnv
        >>> env = TransformedEnv(GridWorldEnv(), NoopResetEnv(3, random=False))
        >>> _ = env.insert_transform(0, StepCounter())
        >>> env.reset()["step_count"]
        tensor([3])
    """

    _shown = ("noops", "random")
    _env_only = "steps an env"

    def __init__(self, noops: int = 30, random: bool = True) -> None:
        if isinstance(noops, bool) or not isinstance(noops, int) or noops < 0:
            raise ValueError(f"noops must be a non-negative integer, got {noops!r}.")
        super().__init__()
        self.noops, self.random = noops, bool(random)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        parent = self.parent
        assert parent is not None
        count = self.noops
        if self.random:
            with parent.own_randomness():
                count = int(torch.randint(self.noops + 1, ()))
        for _ in range(_ATTEMPTS):
            data = tensordict_reset
            for _ in range(count):
                step = parent.rand_step(shallow_copy(data))
                if _ended(parent, step.get("next")):
                    break
                data = parent._step_mdp(step)
            else:
                return data
            tensordict_reset = parent.reset()
        raise RuntimeError(
            f"NoopResetEnv tried {_ATTEMPTS} times to take {count} random steps after a reset, and each time the "
            "episode ended before. Fix: fewer noops."
        )

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """Raise ``ValueError`` if the env is a batch; see :class:`Transform`."""
        if batch_size:
            raise ValueError(
                f"NoopResetEnv takes steps in a single env, and this one has batch size {tuple(batch_size)}: when some "
                "of its envs are reset, the others must not move. Fix: put it around each env, "
                "SerialEnv(n, lambda: TransformedEnv(GymEnv(id), NoopResetEnv()))."
            )
        return batch_size


def _ended(env: TransformedEnv, data: TensorDictBase) -> bool:
    """Whether any "done" of the data of a step is set."""
    flags = [data.get(key, None) for key in env.done_keys if as_tuple(key)[-1] == DONE]
    return any(bool(flag.any()) for flag in flags if flag is not None)
