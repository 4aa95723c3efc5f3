"""Transforms of the data that a replay buffer stores, and of the sequences that it samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from rlnb.data.postprocs import multi_step
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.recurrent_mode import set_recurrent_mode
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.transform import Keys, Transform, key_list


class WriteTransform(Transform):
    """Base class of transforms that change data when a buffer stores it, and leave samples unchanged.

    A subclass implements ``_store``, which is given trajectories of shape ``[..., time]``. The transform cannot be used
    in an env, because it looks at future steps.
    """

    #: What it does, and the line that stores trajectories, for the error.
    _does: ClassVar[str]
    _fix: ClassVar[str]

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change trajectories in place, and return what the buffer stores."""
        raise NotImplementedError

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict  # samples were transformed when they were stored

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not tensordict.ndim:
            raise ValueError(
                f"{type(self).__name__} {self._does} along the last dimension of the data, time, and the data has "
                f"batch size (). Fix: {self._fix}."
            )
        return self._store(tensordict)

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(errors.buffer_only(self, "looks at steps that an env has yet to take"))


class MultiStepTransform(WriteTransform):
    """Computes n-step rewards, as :class:`~rlnb.data.MultiStep` does, across consecutive extensions of a buffer.

    The last n steps are held back until the steps after them arrive, so that extending by T steps stores T steps, or
    T - n the first time. The transform works only as the inverse, on data that a buffer is about to store: consecutive
    steps of shape ``[..., time]``. ``buffer.add(step)`` extends the buffer by one step; while steps are held back it
    stores nothing and returns an empty index.

    Args:
        n_steps: the most rewards to sum.
        gamma: discount factor in [0, 1].
        reward_keys: the rewards, under "next". Default: "reward".
        done_key: the end signal of trajectories, under "next". Default: "done".
        done_keys: several end signals instead: a trajectory ends where any of them is set.
        mask_key: a boolean mask of the steps that are data, if it is not named "mask".

    Raises:
        ValueError: If ``n_steps`` or ``gamma`` is out of range, or both ``done_key`` and ``done_keys`` are given.

    Example:
        >>> from tensordict import TensorDict
        >>> def steps(start):
        ...     after = {"reward": torch.ones(3, 1), "done": torch.zeros(3, 1, dtype=torch.bool)}
        ...     return TensorDict({"t": torch.arange(start, start + 3), "next": after}, [3])
        >>> ahead = MultiStepTransform(n_steps=2, gamma=0.5)
        >>> ahead.inv(steps(0))["t"], ahead.inv(steps(3))["t"]
        (tensor([0]), tensor([1, 2, 3]))
    """

    _shown = ("n_steps", "gamma")
    #: Stored data continues what was stored before, so a buffer adds a time dimension to single steps.
    joins_writes = True
    _does = "looks ahead"
    _fix = "buffer.extend(env.rollout(n)), or buffer.extend(step.unsqueeze(0))"

    def __init__(
        self,
        n_steps: int,
        gamma: float,
        *,
        reward_keys: Keys | None = None,
        done_key: NestedKey | None = None,
        done_keys: Sequence[NestedKey] | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        if isinstance(n_steps, bool) or not isinstance(n_steps, int) or n_steps < 1:
            raise ValueError(f"n_steps must be a positive integer, got {n_steps!r}.")
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be a discount factor from 0 to 1, got {gamma!r}.")
        if done_key is not None and done_keys is not None:
            raise ValueError("MultiStepTransform takes done_key or done_keys, and got both. Fix: leave done_key out.")
        self.n_steps, self.gamma = n_steps, float(gamma)
        self.reward_keys = key_list("reward" if reward_keys is None else reward_keys, "reward_keys")
        self.done_keys = key_list([done_key or DONE] if done_keys is None else done_keys, "done_keys")
        self.mask_key = None if mask_key is None else key_list([mask_key], "mask_key")[0]

    def _forget(self) -> None:
        super()._forget()
        self._held: TensorDictBase | None = None

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        steps = self._joined(tensordict)
        ends = [as_key(("next", *as_tuple(key))) for key in self.done_keys]
        masked = steps
        if self.mask_key not in (None, "mask"):  # the key that multi_step reads
            masked = steps.copy().set("mask", self._need(steps, self.mask_key))
        ahead = multi_step(masked, self.gamma, self.n_steps, self.reward_keys, ends)
        self.__dict__["_held"] = steps[..., -self.n_steps :].clone()
        return ahead[..., : max(steps.batch_size[-1] - self.n_steps, 0)]

    @property
    def done_key(self) -> NestedKey:
        """The first of ``done_keys``."""
        return self.done_keys[0]

    def _joined(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return the steps that were held back, followed by the new ones."""
        held = self._held
        if held is None:
            return tensordict
        had, got = set(leaf_keys(held)), set(leaf_keys(tensordict))
        if held.batch_size[:-1] != tensordict.batch_size[:-1] or had != got:
            what = f"entries {sorted(map(str, had ^ got))} in one and not the other" if had != got else "batch sizes"
            raise ValueError(
                f"MultiStepTransform joins the steps that it held back, of batch size {tuple(held.batch_size)}, to new "
                f"ones, of batch size {tuple(tensordict.batch_size)}, and they differ in their {what}. Fix: extend the "
                "buffer with data of one layout, of shape [*batch, time]."
            )
        joined: TensorDictBase = torch.cat([held, tensordict], -1)  # type: ignore[assignment]  # torch joins TensorDicts
        return joined


class Reward2GoTransform(WriteTransform):
    """Replaces each reward by the discounted sum of the rewards from that step to the end of its episode.

    It works only as the inverse, on data that a buffer is about to store: trajectories of shape ``[..., time]``. The
    sum stops at the end of the data.

    Args:
        gamma: discount factor in [0, 1].
        in_keys: the rewards. Default: ("next", "reward").
        out_keys: the returns. Default: ``in_keys``.
        done_key: the end signal of episodes, under "next".

    Raises:
        ValueError: If ``gamma`` is out of range, or the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> after = {"reward": torch.ones(3, 1), "done": torch.tensor([[False], [True], [True]])}
        >>> Reward2GoTransform(gamma=0.5).inv(TensorDict({"next": after}, [3]))["next", "reward"].flatten()
        tensor([1.5000, 1.0000, 1.0000])
    """

    _does = "sums"
    _fix = "store whole trajectories, buffer.extend(env.rollout(n))"

    def __init__(
        self,
        gamma: float | torch.Tensor | None = 1.0,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        done_key: NestedKey | None = DONE,
    ) -> None:
        super().__init__([("next", "reward")] if in_keys is None else in_keys, out_keys)
        gamma = 1.0 if gamma is None else float(gamma)
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be a discount factor from 0 to 1, got {gamma!r}.")
        self.gamma = gamma
        self.done_key = key_list([DONE if done_key is None else done_key], "done_key")[0]

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        done = self._need(tensordict, as_key(("next", *as_tuple(self.done_key))))
        time = tensordict.ndim - 1
        ends = done.reshape(*tensordict.batch_size, -1).any(-1)
        if not bool(ends.any()):
            raise ValueError(
                f"Reward2GoTransform found no end of an episode: {self.done_key!r} is False in all {ends.shape[-1]} "
                "steps, so no return is known. Fix: store whole episodes, or set_truncated=True in the rollout."
            )
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._need(tensordict, in_key)
            tensordict.set(out_key, _returns(reward, ends, self.gamma, time))
        return tensordict


def _returns(reward: torch.Tensor, ends: torch.Tensor, gamma: float, time: int) -> torch.Tensor:
    """Return the discounted sums from each step to the end of its episode."""
    returns = torch.empty_like(reward)
    total: Any = torch.zeros_like(reward.select(time, 0))
    for t in range(reward.shape[time] - 1, -1, -1):
        ended = ends.select(time, t)
        total = total.masked_fill(ended.reshape((*ended.shape, *[1] * (total.ndim - ended.ndim))), 0)
        total = reward.select(time, t) + gamma * total
        returns.select(time, t).copy_(total)
    return returns


class RandomCropTensorDict(Transform):
    """Cuts a random sequence of consecutive steps out of each trajectory of a sample.

    Args:
        sub_seq_len: number of steps.
        sample_dim: the time dimension.
        mask_key: a boolean mask, ``True`` for data and ``False`` for padding at the end. Default: all steps are data.

    Raises:
        ValueError: If ``sub_seq_len`` is not a positive integer.

    Example:
        >>> from tensordict import TensorDict
        >>> steps = TensorDict({"t": torch.arange(20).expand(3, 20)}, [3, 20])
        >>> piece = RandomCropTensorDict(sub_seq_len=5)(steps)["t"]
        >>> piece.shape, bool((piece.diff() == 1).all())
        (torch.Size([3, 5]), True)
    """

    _shown = ("sub_seq_len", "sample_dim")

    def __init__(self, sub_seq_len: int, sample_dim: int = -1, mask_key: NestedKey | None = None) -> None:
        if isinstance(sub_seq_len, bool) or not isinstance(sub_seq_len, int) or sub_seq_len < 1:
            raise ValueError(f"sub_seq_len must be a positive integer, got {sub_seq_len!r}.")
        super().__init__()
        self.sub_seq_len, self.sample_dim = sub_seq_len, sample_dim
        self.mask_key = None if mask_key is None else key_list([mask_key], "mask_key")[0]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Cut a sequence out of each trajectory of data ``[*batch, time]``.

        Returns:
            A new TensorDict of shape ``[..., sub_seq_len]``.

        Raises:
            RuntimeError: If a trajectory is too short, or there is no dimension ``sample_dim``.
            ValueError: If the mask has padding before data.
            KeyError: If the mask is missing.
        """
        ndim = tensordict.ndim
        if not -ndim <= self.sample_dim < ndim:
            raise RuntimeError(
                f"RandomCropTensorDict cuts along dimension {self.sample_dim}, and the data has batch size "
                f"{tuple(tensordict.batch_size)}."
            )
        dim = self.sample_dim % ndim
        lengths = self._lengths(tensordict, dim)
        shortest = int(lengths.min()) if lengths.numel() else self.sub_seq_len
        if shortest < self.sub_seq_len:
            raise RuntimeError(
                f"RandomCropTensorDict cuts out {self.sub_seq_len} steps, and the shortest trajectory has {shortest}. "
                f"Fix: RandomCropTensorDict(sub_seq_len={shortest}), or longer trajectories."
            )
        room = lengths - self.sub_seq_len + 1
        starts = (torch.rand(lengths.shape, device=lengths.device) * room).long().clamp_max(room - 1)
        steps = starts.unsqueeze(dim) + _along(torch.arange(self.sub_seq_len, device=starts.device), dim, ndim)
        grid = [
            steps if d == dim else _along(torch.arange(size, device=starts.device), d, ndim)
            for d, size in enumerate(tensordict.batch_size)
        ]
        return tensordict[tuple(grid)]

    def _lengths(self, data: TensorDictBase, dim: int) -> torch.Tensor:
        """Return the number of steps of each trajectory, of the batch size without time."""
        shape: Sequence[int] = [size for d, size in enumerate(data.batch_size) if d != dim]
        if self.mask_key is None:
            return torch.full(shape, data.batch_size[dim], device=data.device)
        mask = self._need(data, self.mask_key).reshape(data.batch_size)
        if bool((mask & ~mask.cummin(dim)[0]).any()):
            raise ValueError(
                f"The mask {self.mask_key!r} must be True up to the end of each trajectory and False after it, but has "
                "a False before a True."
            )
        return mask.sum(dim)

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(errors.buffer_only(self, "cuts trajectories into pieces"))


def _along(values: torch.Tensor, dim: int, ndim: int) -> torch.Tensor:
    """Reshape values so that they lie along one of ``ndim`` dimensions."""
    return values.reshape([-1 if d == dim else 1 for d in range(ndim)])


class BurnInTransform(Transform):
    """Runs recurrent modules over the first steps of sampled sequences, and drops these steps.

    A buffer holds recurrent states that an older policy computed. This transform recomputes them with the current
    policy (Kapturowski et al., 2019), without gradients, and writes the result to the first remaining step.

    Args:
        modules: the recurrent modules in order, such as :class:`~rlnb.modules.LSTMModule`, or a single one.
        burn_in: the number of steps to run over.
        out_keys: the states. Default: the entries that a module reads, and writes under "next".

    Raises:
        TypeError: If one is not a TensorDictModule.
        ValueError: If ``burn_in`` is negative.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.modules import GRUModule
        >>> net = GRUModule(input_size=3, hidden_size=4, in_key="observation", out_key="features")
        >>> sample = TensorDict({"observation": torch.ones(2, 10, 3), "is_init": torch.zeros(2, 10, 1).bool()}, [2, 10])
        >>> sample["recurrent_state"] = torch.zeros(2, 10, 1, 4)
        >>> out = BurnInTransform([net], burn_in=4)(sample)
        >>> out.batch_size, bool(out["recurrent_state"][:, 0].any())
        (torch.Size([2, 6]), True)
    """

    _shown = ("burn_in", "out_keys")

    def __init__(
        self,
        modules: Sequence[TensorDictModuleBase] | TensorDictModuleBase,
        burn_in: int,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        chain = [modules] if isinstance(modules, TensorDictModuleBase) else list(modules)
        for module in chain:
            if not isinstance(module, TensorDictModuleBase):
                raise TypeError(
                    f"BurnInTransform runs TensorDictModules, and got a {type(module).__name__}. "
                    "Fix: TensorDictModule(net, in_keys=[...], out_keys=[...])."
                )
        if isinstance(burn_in, bool) or not isinstance(burn_in, int) or burn_in < 0:
            raise ValueError(f"burn_in must be a non-negative integer, got {burn_in!r}.")
        super().__init__()
        # Not as submodules: they belong to the policy, which is trained, moved and saved as such.
        self.__dict__["modules_"] = chain
        self.burn_in = burn_in
        self.out_keys = _states(chain) if out_keys is None else key_list(list(out_keys), "out_keys")

    def _pair_up(self) -> None:
        """Accept any ``out_keys``: there are no ``in_keys``."""

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Run the modules over the first steps of data ``[*batch, time]``, and drop these steps.

        Raises:
            ValueError: If no steps remain.
            KeyError: If an input of the modules is missing.
        """
        if not self.burn_in:
            return tensordict
        length = tensordict.batch_size[-1] if tensordict.ndim else 0
        if length <= self.burn_in:
            raise ValueError(
                f"BurnInTransform drops the first {self.burn_in} steps of each sequence, and the data has batch size "
                f"{tuple(tensordict.batch_size)}, whose last dimension is time. Fix: sample longer sequences."
            )
        first = tensordict[..., : self.burn_in].copy()
        with torch.no_grad(), set_recurrent_mode(True):
            for module in self.__dict__["modules_"]:
                first = module(first)
        rest = tensordict[..., self.burn_in :].copy()
        for key in self.out_keys:
            state = first.get(as_key(("next", *as_tuple(key))))[(slice(None),) * (tensordict.ndim - 1) + (-1,)]
            stored = rest.get(key, None)
            shape = (*rest.batch_size, *state.shape[tensordict.ndim - 1 :])
            states = state.new_zeros(shape) if stored is None else stored.clone()
            states[(slice(None),) * (tensordict.ndim - 1) + (0,)] = state
            rest.set(key, states)
        return rest

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(errors.buffer_only(self, "runs over sequences of steps"))


def _states(modules: list[TensorDictModuleBase]) -> list[NestedKey]:
    """What the modules read, and write for the step that follows."""
    read = [as_tuple(key) for module in modules for key in module.in_keys]
    written = [as_tuple(key) for module in modules for key in module.out_keys]
    return [as_key(path[1:]) for path in written if path[0] == "next" and path[1:] in read]


__all__ = ["BurnInTransform", "MultiStepTransform", "RandomCropTensorDict", "Reward2GoTransform"]
