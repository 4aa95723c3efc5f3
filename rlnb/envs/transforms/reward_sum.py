"""RewardSum: the return so far, undiscounted, of the episode that is running."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.per_reward import PerReward
from rlnb.envs.transforms.rows import Reset, RowRule, Rows, Step
from rlnb.envs.transforms.transform import Keys, key_list


class RewardSum(PerReward):
    """Adds up the rewards since the reset.

    As a module it does so along the dimension "time" of a rollout, from the first step on and anew after each "done".

    Args:
        in_keys: the rewards, such as "reward"; ``("next", "reward")`` is the same in an env. Default: all of the env.
        out_keys: of the sums. Default: "episode_reward" for "reward", at the same level. They are 0 after a reset.
        reset_keys: for each of ``in_keys`` the mask that says which rows of it a reset starts anew, or one mask for
            all. Default: the nearest one above each reward.
        reward_spec: list the sums among the rewards of the env, in place of its observations.

    Raises:
        ValueError: if the keys do not pair up.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), RewardSum())
        >>> env.rollout(3)["next", "episode_reward"].flatten()
        tensor([1., 2., 3.])
    """

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        reset_keys: Keys | None = None,
        *,
        reward_spec: bool = False,
    ) -> None:
        self.reward_spec = bool(reward_spec)
        self.reset_keys = None if reset_keys is None else key_list(reset_keys, "reset_keys")
        super().__init__(in_keys, out_keys)

    def _beside(self, name: str) -> str:
        return f"episode_{name}"

    def _use(self, rewards: list[NestedKey], named: list[NestedKey]) -> None:
        if self.reset_keys is not None and len(self.reset_keys) == 1:
            self.reset_keys = self.reset_keys * len(rewards)  # one mask for all
        if self.reset_keys is not None and len(self.reset_keys) != len(rewards):
            n_resets = len(self.reset_keys)
            raise ValueError(faults.unequal_keys(self, "in_keys", len(rewards), "reset_keys", n_resets))
        super()._use(rewards, named)

    # In an env ----------------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            reward = self._read(next_tensordict, in_key)
            if reward is not None:
                total = self._carried.get(tensordict, out_key)
                self._carried.put(next_tensordict, out_key, reward.clone() if total is None else total + reward)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for i, (in_key, out_key) in enumerate(self._pairs()):
            reset_key = None if self.reset_keys is None else self.reset_keys[i]
            fresh = self._first(in_key, tensordict_reset, 0.0)
            self._carried.restart(tensordict, tensordict_reset, out_key, fresh, reset_key)
        return tensordict_reset

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        rewards, cells = output_spec["full_reward_spec"], self._carried
        pairs = self._pairs()
        if self.reset_keys is not None or self.reward_spec or any(key not in rewards for key, _ in pairs):
            return None

        def bind(before: Rows, after: Rows) -> tuple[Step, Reset]:
            rewards = [before.next[key] for key, _ in pairs]
            at_root, following = ([rows[key] for _, key in pairs] for rows in (after.root, after.next))
            last = [cells.in_rows(key, rows) for (_, key), rows in zip(pairs, following, strict=True)]
            adding, clearing = list(zip(rewards, following, last, strict=True)), list(zip(at_root, last, strict=True))

            def step(t: int) -> bool:
                for reward, sums, read in adding:
                    total = read()
                    total += reward[t]
                    sums[t] = total
                return False

            def reset(t: int) -> None:
                for sums, read in clearing:
                    sums[t] = 0
                    read().fill(0)

            return step, reset

        return RowRule(bind, [], [key for _, key in pairs])

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the sums, unless they are rewards; see :class:`Transform`."""
        self._need_composite(observation_spec)
        return observation_spec if self.reward_spec else super().transform_observation_spec(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Add the sums if they are rewards; see :class:`Transform`."""
        return super().transform_observation_spec(reward_spec) if self.reward_spec else reward_spec

    # On a rollout -------------------------------------------------------------------------------------------------

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add up the rewards of a rollout, anew after each "done".

        Args:
            tensordict: in the TED format, one dimension named "time"; written to, at the root and under "next".

        Returns:
            The TensorDict.

        Raises:
            ValueError: if no dimension is named "time".
            KeyError: if there is no reward, or no "done", under "next".
        """
        if list(tensordict.names).count("time") != 1:
            raise ValueError(
                "RewardSum adds up along the dimension named 'time', and the dimensions of this data are called "
                f"{list(tensordict.names)}. Fix: data.names = [..., 'time'] if it is a rollout; a sample of single "
                "steps has no sums."
            )
        dim = list(tensordict.names).index("time")
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            path = as_tuple(in_key)
            under_next = path[0] == "next" and len(path) > 1
            reward = self._read(tensordict, in_key if under_next else as_key(("next", *path)))
            if reward is None:
                continue
            ended = self._ended(tensordict, as_key(path[1:]) if under_next else in_key)
            before, after = _running_sums(reward, ended, dim)
            if under_next:  # both keys say where in the rollout they are
                tensordict.set(out_key, after)
                continue
            tensordict.set(out_key, before)
            tensordict.set(as_key(("next", *as_tuple(out_key))), after)
        return tensordict

    def _ended(self, tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor:
        """The "done" of the nearest level above a reward."""
        path = as_tuple(key)
        for depth in range(len(path) - 1, -1, -1):
            done = tensordict.get(("next", *path[:depth], DONE), None)
            if done is not None:
                return done
        raise faults.missing_key(self, ("next", DONE), tensordict, False)


def _running_sums(reward: torch.Tensor, done: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Add up along ``dim``, anew after each True: the sums before and after each step, as an env would compute them."""
    before, after = [], []
    total = torch.zeros_like(reward.select(dim, 0))
    for t in range(reward.shape[dim]):
        before.append(total)
        total = total + reward.select(dim, t)
        after.append(total)
        ended = done.select(dim, t)
        total = total.masked_fill(ended.reshape((*ended.shape, *[1] * (total.ndim - ended.ndim))), 0)
    return torch.stack(before, dim), torch.stack(after, dim)


__all__ = ["RewardSum"]
