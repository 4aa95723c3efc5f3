"""``AutoResetEnv`` and the transforms for envs that reset themselves at the end of each episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDictBase, lazy_stack

from rlnb._tensordict import fast_tensordict, shallow_copy
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.base import EnvBase
from rlnb.envs.end_signals import complete_done
from rlnb.envs.partial_reset import Masks, deciding, end_masks, masks_by_row, overwrite, reset_masks
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.transform import Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv


class AutoResetTransform(Transform):
    """Assigns the observations of an env that resets itself to the episodes that they belong to.

    It is the first transform of an :class:`AutoResetEnv`. It stores the first observation of the next episode, which
    the last step returns, and returns it from the next reset. Under "next", a placeholder replaces it, because the last
    observation of the old episode is unknown.

    Args:
        replace: whether to write a placeholder under "next". If ``False``, the first observation of the next episode
            remains there. Default: ``True``.
        fill_float: placeholder for float observations.
        fill_int: placeholder for integers; -1 means the largest number of an unsigned dtype.
        fill_bool: placeholder for booleans. The placeholder of non-tensor data is ``None``.

    Raises:
        ValueError: If a placeholder does not fit the dtype of an observation.

    Example:
        >>> from rlnb.envs import CartPoleEnv
        >>> AutoResetEnv(CartPoleEnv(), AutoResetTransform(fill_float=0.0, replace=False)).transform
        AutoResetTransform(replace=False)
    """

    _shown = ("replace",)
    _kept: TensorDictBase | None
    _restarted: Masks

    def __init__(
        self,
        *,
        replace: bool | None = None,
        fill_float: float | str = "nan",
        fill_int: int = -1,
        fill_bool: bool = False,
    ) -> None:
        super().__init__()
        self.replace = replace is None or bool(replace)
        try:
            self.fill_float = float(fill_float)
        except (TypeError, ValueError):
            raise ValueError(f"fill_float must be a number, or 'nan', got {fill_float!r}.") from None
        if isinstance(fill_int, bool) or not hasattr(fill_int, "__index__"):
            raise ValueError(f"fill_int must be an integer, got {fill_int!r}.")
        if fill_bool not in (True, False):
            raise ValueError(f"fill_bool must be True or False, got {fill_bool!r}.")
        self.fill_int, self.fill_bool = int(fill_int), bool(fill_bool)

    def _forget(self) -> None:
        super()._forget()
        self.forget()

    @property
    def _base(self) -> EnvBase:
        env = self._env()
        assert env is not None
        return env.base_env

    def forget(self) -> None:
        """Discard the stored observations: the next reset resets the base env."""
        self.__dict__.update(_kept=None, _restarted={})

    def _learn_output(self, output_spec: Composite) -> None:
        env = self._env()
        if env is not None and not isinstance(env, AutoResetEnv):
            base = type(env.base_env).__name__
            raise ValueError(
                f"An AutoResetTransform belongs in an AutoResetEnv, and was put into a {type(env).__name__}, which "
                f"would reset the {base} again after it resets itself. Fix: AutoResetEnv(env, AutoResetTransform()), "
                f"or {base}(..., auto_reset=True)."
            )
        observation = output_spec["full_observation_spec"]
        self._observations: list[NestedKey] = list(observation.keys(True, True))
        for key in self._observations:
            self._check_fill(key, observation[key].dtype)

    def _check_fill(self, key: NestedKey, dtype: torch.dtype | None) -> None:
        if not self.replace or dtype is None or dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
            return
        info = torch.iinfo(dtype)
        if not info.min <= self._fill_for(dtype) <= info.max:
            raise ValueError(
                f"fill_int={self.fill_int} is not a number of dtype {dtype}, which the observation {key!r} has. "
                f"Fix: AutoResetTransform(fill_int=n) with n from {info.min} to {info.max}."
            )

    def _fill_for(self, dtype: torch.dtype) -> float:
        if dtype == torch.bool:
            return self.fill_bool
        if dtype.is_floating_point or dtype.is_complex:
            return self.fill_float
        info = torch.iinfo(dtype)
        return info.max if self.fill_int == -1 and info.min == 0 else self.fill_int

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        base = self._base
        restarted = end_masks(base, next_tensordict)
        if not any(bool(mask.any()) for mask in restarted.values()):
            self.forget()
            return next_tensordict
        kept = next_tensordict.select(*self._observations, strict=False)
        self.__dict__.update(_kept=kept, _restarted=restarted)
        if self.replace:
            masks = deciding(restarted)
            overwrite(next_tensordict, self._placeholders(kept, masks), masks, base.ndim)
        return next_tensordict

    def _placeholders(self, data: TensorDictBase, masks: Masks) -> TensorDictBase:
        """Make placeholders for the observations at or below the end signals."""
        if isinstance(data, LazyStackedTensorDict):
            rows = zip(data.unbind(0), masks_by_row(masks, len(data)), strict=True)
            return lazy_stack([self._placeholders(row, own) for row, own in rows], 0)
        made = fast_tensordict({}, data.batch_size, data.device)
        for key in self._observations:
            path = as_tuple(key)
            value = data.get(key, None)
            if value is not None and any(path[: len(level)] == level for level in masks):
                made.set(key, self._placeholder(value))
        return made

    def _placeholder(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.full_like(value, self._fill_for(value.dtype))
        return NonTensorData(None, batch_size=value.batch_size)

    def hand_out(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        """Return the data of a reset: stored observations in rows that have restarted, and a new reset in the others.

        ``given`` is the input of the reset, with masks if it is a partial one; ``reset`` resets the base env.
        """
        base, kept, restarted = self._base, self._kept, self._restarted
        if kept is not None and given is not None and given.batch_size != kept.batch_size:
            kept, restarted = None, {}  # a stateless env was given data of another batch size
        asked = {} if given is None else deciding(reset_masks(base, given))
        if not asked:
            whole = all(bool(mask.all()) for mask in deciding(restarted).values())
            fresh = reset(given) if kept is None or not whole else shallow_copy(kept)
            self.forget()
            return fresh
        rest = {level: mask & ~restarted[level] if level in restarted else mask for level, mask in asked.items()}
        if kept is None:
            fresh = reset(_marked(base, given, rest))
        else:
            fresh = shallow_copy(kept)
            if any(bool(mask.any()) for mask in rest.values()):
                complete_done(base, fresh, at_reset=True)
                overwrite(fresh, reset(_marked(base, given, rest)), rest, base.ndim)
        had = {level: mask & ~asked[level] if level in asked else mask for level, mask in restarted.items()}
        self.__dict__["_restarted"] = had
        return fresh


class AutoResetEnv(TransformedEnv):
    """Wraps an env that resets itself; ``auto_reset=True`` wraps an env of any class in it.

    The step that ends an episode of such an env returns the first observation of the next episode. This class returns
    it from the next reset instead, without resetting the env again. Rollouts, ``step_and_maybe_reset`` and partial
    resets work as for any env; in a batch, rows may restart at different times.

    ``reset()`` returns the observation that the whole env has restarted with, if the last step ended it and that
    observation was not returned yet. Otherwise it resets the base env: after :meth:`set_seed`, with keyword arguments,
    or in the middle of an episode.

    Args:
        base_env: the env. Its own reset must not need keyword arguments.
        transform: an :class:`AutoResetTransform` (the default), or a :class:`Compose` that begins with one.
        cache_specs: see :class:`TransformedEnv`.
        auto_unwrap: ignored: a TransformedEnv around this env never unwraps it.

    Raises:
        ValueError: If the base env is a TransformedEnv or a batch of envs, or if there is not exactly one
            AutoResetTransform, at the beginning.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> class AutoResettingGymEnv(GymEnv):
        ...     def _step(self, tensordict):
        ...         result = super()._step(tensordict)
        ...         if result["done"].any():
        ...             result.update(self.reset().exclude(*self.done_keys))
        ...         return result
        >>> env = AutoResettingGymEnv("CartPole-v1", auto_reset=True)
        >>> found = env.rollout(100, break_when_any_done=False)
        >>> bool((found["next", "observation"].isnan().all(-1, keepdim=True) == found["next", "done"]).all())
        True
    """

    auto_reset = True

    def __init__(
        self,
        base_env: EnvBase,
        transform: Transform | Callable[[TensorDictBase], TensorDictBase] | None = None,
        cache_specs: bool = True,
        *,
        auto_unwrap: bool = True,
    ) -> None:
        name = type(base_env).__name__
        if hasattr(base_env, "auto_reset_replace"):
            raise ValueError("This env already resets itself: it was made with auto_reset=True, or is an AutoResetEnv.")
        if isinstance(base_env, TransformedEnv):
            inner = base_env.transform
            members = [type(member).__name__ for member in (inner if isinstance(inner, Compose) else [inner])]
            raise ValueError(
                f"An env that resets itself must be the innermost one, and this is a {name} with {members}, which do "
                "not notice when the env in it restarts. Fix: TransformedEnv(AutoResetEnv(env), transform)."
            )
        if isinstance(base_env, EnvBase) and type(base_env)._auto_resetting is not EnvBase._auto_resetting:
            raise ValueError(
                f"Each env of a {name} resets itself, and not the {name}. "
                f"Fix: {name}(n, make, auto_reset=True), or {name}(n, lambda: AutoResetEnv(make()))."
            )
        chain = AutoResetTransform() if transform is None else transform
        super().__init__(base_env, chain, cache_specs, auto_unwrap=False)

    def _refresh(self) -> None:
        members = list(self._chain) if isinstance(self._chain, Compose) else [self._chain]
        if [isinstance(member, AutoResetTransform) for member in members] != [True] + [False] * (len(members) - 1):
            raise ValueError(
                "An AutoResetEnv has one AutoResetTransform, before all other transforms, and this would be "
                f"{[type(member).__name__ for member in members]}: a transform before it would not see where episodes "
                "begin. Fix: AutoResetEnv(env).append_transform(transform), for one after the other."
            )
        self.__dict__["_keeper"] = members[0]
        super()._refresh()

    @property
    def auto_reset_replace(self) -> bool:
        """Whether placeholders replace last observations."""
        return self._keeper.replace

    def _reset_base(self, given: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if not kwargs:
            return self._keeper.hand_out(given, self._base._reset)
        fresh = self._base._reset(given, **kwargs)
        self._keeper.forget()
        return fresh

    def _with_transforms(self, members: list[Transform]) -> TransformedEnv:
        return AutoResetEnv(self._base, Compose(*members)) if members else super()._with_transforms(members)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the base env and the random actions; the next reset resets the env. See :meth:`EnvBase.set_seed`."""
        after = super().set_seed(seed, static_seed)
        self._keeper.forget()
        return after

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        self._keeper.forget()


def _marked(env: EnvBase, given: TensorDictBase | None, masks: Masks) -> TensorDictBase:
    """Make the input of a reset of the selected rows; without masks if all are selected."""
    assert given is not None
    partial = given.exclude(*env.reset_keys)
    if not all(bool(mask.all()) for mask in masks.values()):
        for level, mask in masks.items():
            partial.set(as_key((*level, "_reset")), mask)
    return partial


class VecGymEnvTransform(AutoResetTransform):
    """Assigns the observations of a vector env that resets its sub-envs itself to the episodes that they belong to.

    It is for backends whose step returns the first observation of the next episode where an episode ended, and the last
    one in its info dictionary, which an info reader copies to ``final_name`` in the data. This transform moves the
    latter under "next", and returns the former from the next reset, without resetting the sub-env again.

    Data without ``final_name`` is unchanged: :class:`~rlnb.envs.GymWrapper` returns correct data in every autoreset
    mode of Gymnasium by itself. The transform must be the first one of its env.

    Args:
        final_name: the entry with the last observations, by the names of the observations.
        missing_obs_value: value under "next" where an episode ended and its last observation is missing; 0 for
            integers, which have no NaN.
        native_autoreset: ``True`` is not supported.

    Example:
        >>> from rlnb.envs import GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1", num_envs=2), VecGymEnvTransform())
        >>> env.rollout(30, break_when_any_done=False)["next", "observation"].isnan().any()
        tensor(False)
    """

    _shown = ("final_name",)

    def __init__(
        self, final_name: str = "final", missing_obs_value: Any = torch.nan, *, native_autoreset: bool = False
    ) -> None:
        if native_autoreset:
            raise NotImplementedError(
                "VecGymEnvTransform(native_autoreset=True) is not supported: the env would have to reset itself in "
                "each step. Fix: leave it out; GymEnv(id, num_envs=n) returns correct data in every autoreset mode."
            )
        if not isinstance(final_name, str):
            raise TypeError(f"final_name must be a string, got a {type(final_name).__name__}.")
        super().__init__()
        self.final_name, self.missing_obs_value = final_name, missing_obs_value

    def _learn_output(self, output_spec: Composite) -> None:
        env = self._env()
        members = [] if env is None else list(getattr(env.transform, "transforms", [env.transform]))
        if members and members[0] is not self:
            raise ValueError(
                f"VecGymEnvTransform must be the first transform of its env, and the first is a "
                f"{type(members[0]).__name__}: a transform before it would not see where episodes begin. "
                "Fix: env.insert_transform(0, VecGymEnvTransform())."
            )
        observation = output_spec["full_observation_spec"]
        keys = list(observation.keys(True, True))
        self._observations: list[NestedKey] = [key for key in keys if as_tuple(key)[0] != self.final_name]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self.forget()
        final = next_tensordict.get(self.final_name, None)
        if final is None:
            return next_tensordict
        next_tensordict = next_tensordict.exclude(self.final_name)
        restarted = end_masks(self._base, next_tensordict)
        if any(bool(mask.any()) for mask in restarted.values()):
            kept = next_tensordict.select(*self._observations, strict=False)
            self.__dict__.update(_kept=kept, _restarted=restarted)
            overwrite(next_tensordict, self._last(kept, final), deciding(restarted), self._base.ndim)
        return next_tensordict

    def _last(self, kept: TensorDictBase, final: TensorDictBase) -> TensorDictBase:
        """Return the last observations, or ``missing_obs_value`` where they are missing."""
        last = kept.empty()
        for key in self._observations:
            value, given = kept.get(key), final.get(key, None)
            if given is None:
                fits = value.dtype.is_floating_point or self.missing_obs_value == self.missing_obs_value  # not NaN
                last.set(key, torch.full_like(value, self.missing_obs_value if fits else 0))
            else:
                last.set(key, given.to(value.dtype))
        return last

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset.exclude(self.final_name)

    def _reset_base_env(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        env = self._env()
        if env is None or self._kept is None or given is None or not reset_masks(env.base_env, given):
            self.forget()
            return reset(given)
        return self.hand_out(given, reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Remove the last observations; see :class:`Transform`."""
        return observation_spec.exclude(as_key((self.final_name,)))
