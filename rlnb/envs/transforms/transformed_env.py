"""TransformedEnv: an env whose data passes through a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict, shallow_copy
from rlnb.envs.base import EnvBase
from rlnb.envs.done import complete_done
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.call import as_transform
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.row_env import TransformedRows
from rlnb.envs.transforms.transform import Transform, checked


class TransformedEnv(TransformedRows):
    """An env around another one, whose data passes through a transform on its way out and in.

    The specs are those of the base env, changed by the transform. They cannot be set: set those of the base env, or
    append a transform. Attributes that a TransformedEnv does not have are those of the base env. Device, batch size,
    seed and random numbers are shared with it, and :meth:`close` closes it.

    The transforms of a TransformedEnv in a TransformedEnv become one chain: those of the inner one are cloned, and the
    base env is the innermost.

    Args:
        base_env: the env.
        transform: a :class:`Transform`, or a function that takes the data of a step or reset and returns it. None (the
            default) for an empty :class:`Compose`. To set ``env.transform`` later exchanges it.
        cache_specs: compute the specs once, and anew when the transforms or the specs of the base env change. If
            False, each time that they are read, which is slow: for transforms whose effect on specs changes.
        auto_unwrap: make one chain of nested transforms. If False, the base env may be a TransformedEnv.
        device: where the base env is moved first, as by ``base_env.to(device)``. Default: it stays where it is.

    Attributes:
        base_env: the env inside.
        transform: what the data passes through.

    Raises:
        TypeError: if ``base_env`` is no env, ``transform`` is no transform, or ``cache_specs`` no bool.
        RuntimeError: if the transform is in another env already.
        ValueError: if the transform would write over an entry of the env.

    Example:
        >>> from rlnb.envs import GymEnv, StepCounter
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=5))
        >>> env.rollout(100)["next", "step_count"].flatten().tolist()
        [1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        base_env: EnvBase,
        transform: Transform | Callable[[TensorDictBase], TensorDictBase] | None = None,
        cache_specs: bool = True,
        *,
        auto_unwrap: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        if not isinstance(base_env, EnvBase):
            raise TypeError(faults.no_base_env(base_env))
        if not isinstance(cache_specs, bool):
            raise TypeError(faults.no_cache_specs(cache_specs))
        given = chain = Compose() if transform is None else as_transform(transform)
        chain.assert_free()
        if device is not None and base_env.device != torch.device(device):
            moved: Any = base_env.to(device)
            base_env = moved
        super().__init__(base_env, cache_specs)
        if auto_unwrap and type(base_env) is TransformedEnv:
            inner = base_env.transform.clone()
            # One Compose for all, unless there is nothing to compose.
            given, chain = chain, _joined(inner, chain) if transform is not None else inner
            base_env = base_env.base_env
        self._hold(base_env, chain)
        try:
            self._changed()
        except Exception:
            _free(chain, given)
            raise

    def _before(self, members: list[Transform]) -> TransformedEnv:
        """Make an env of the same base env with the first of the transforms."""
        return TransformedEnv(self._base, Compose(*members), auto_unwrap=False)

    # The chain ----------------------------------------------------------------------------------------------------

    def append_transform(self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> TransformedEnv:
        """Add a transform at the outer end.

        Args:
            transform: a :class:`Transform`, or a function that takes the data of a step or reset and returns it.

        Returns:
            The env.

        Raises:
            TypeError: if it is no transform.
            RuntimeError: if it is in another env already.
            ValueError: if it would write over an entry of the env. Nothing changes then.

        Example:
            >>> from rlnb.envs import GymEnv, RewardSum, StepCounter
            >>> TransformedEnv(GymEnv("CartPole-v1"), StepCounter()).append_transform(RewardSum())
            TransformedEnv(
                env=GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None),
                transform=Compose(
                        StepCounter(keys=[]),
                        RewardSum(keys=['reward'])))
        """
        return self._insert(None, transform)

    def insert_transform(
        self, index: int, transform: Transform | Callable[[TensorDictBase], TensorDictBase]
    ) -> TransformedEnv:
        """Add a transform before another.

        Args:
            index: of the other, from the inside; negative numbers count from the outside.
            transform: as for :meth:`append_transform`.

        Returns:
            The env.

        Raises:
            ValueError: if there is no such place; and as for :meth:`append_transform`.
        """
        return self._insert(index, transform)

    def _insert(self, index: int | None, transform: Any) -> TransformedEnv:
        added, chain = as_transform(transform), self._chain
        length = len(chain) if isinstance(chain, Compose) else 1
        if index is not None and not -length <= index <= length:
            raise ValueError(faults.index_range(index, length))
        index = length if index is None else index
        if isinstance(chain, Compose):
            chain.insert(index, added)
            return self
        added.assert_free()
        members = [chain]
        members.insert(index, added)
        chain.reset_parent()
        self._exchange(chain, Compose(*members), [chain, added])
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        # torch.nn.Module takes a module for itself, and would ask no property.
        if name == "transform":
            self._set_transform(value)
        elif name == "base_env":
            raise AttributeError("The base env of a TransformedEnv stays what it is. Fix: make a new TransformedEnv.")
        else:
            super().__setattr__(name, value)

    def _set_transform(self, transform: Any) -> None:
        """Put another transform in the place of all there are."""
        new, old = as_transform(transform), self._chain
        if new is not old:
            new.assert_free()
            old.reset_parent()
            self._exchange(old, new, [new])

    def _exchange(self, old: Transform, new: Transform, members: list[Transform]) -> None:
        """Hold another transform, or the old one still if the env cannot take it; the members are free then."""
        try:
            self._hold(self._base, new)
            self._changed()
        except Exception:
            for member in members:
                member.reset_parent()
            self._hold(self._base, old)
            self._changed()
            raise

    # Reset and step -----------------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self._follow_base()
        base, chain = self._base, self._chain
        if tensordict is None and chain._fills_resets:
            tensordict = fast_tensordict({}, self.batch_size, self.device)
        given = None if tensordict is None else chain._reset_env_preprocess(tensordict)
        fresh = self._reset_base(given, **kwargs)
        base._assert_new(fresh, given, "_reset")
        if not base._is_complete(fresh, "reset"):
            base._fit_data(fresh, "reset")
            complete_done(base, fresh, at_reset=True)
            base._check_data(fresh, "reset")
        if tensordict is None:
            tensordict = fast_tensordict({}, fresh.batch_size, fresh.device)
        return checked(chain, chain._reset(tensordict, fresh))

    def _reset_base(self, given: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if kwargs:
            return self._base._reset(given, **kwargs)
        return self._chain._reset_below(given, self._base._reset)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        base, chain, given = self._base, self._chain, tensordict
        if self._inverts:
            given = checked(chain, chain._inv_call(shallow_copy(tensordict)))
            given = base._check_actions(given)
        result = base._step(given)
        return self._after_step(tensordict, given, result)

    def _step_marked(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        """Let the base env step where the mask says."""
        base, given = self._base, tensordict
        if self._inverts:
            given = base._check_actions(checked(self._chain, self._chain._inv_call(shallow_copy(tensordict))))
        return self._after_step(tensordict, given, base._partial_step(given, mask))

    def _after_step(self, tensordict: TensorDictBase, given: TensorDictBase, result: TensorDictBase) -> TensorDictBase:
        """Check what the base env's step returned, and transform it."""
        base, chain = self._base, self._chain
        base._assert_new(result, given, "_step")
        if not base._is_complete(result, "step"):
            base._fit_data(result, "step")
            complete_done(base, result)
            base._check_data(result, "step")
        return checked(chain, chain._step(tensordict, result))

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random action.

        An env that draws its random actions in a way of its own draws them here too, unless a transform changes them.

        Args:
            tensordict: written to, if given.

        Returns:
            ``tensordict``, or a new one, with an action drawn from the action spec.
        """
        if "drawn_by_base" not in self._cache:
            changed = any(_changes_actions(member) for member in _members(self._chain))
            own = type(self._base).rand_action is not EnvBase.rand_action
            self._cache["drawn_by_base"] = own and not changed
        if self._cache["drawn_by_base"]:
            return self._base.rand_action(tensordict)
        return super().rand_action(tensordict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._chain.set_container(self)


def _joined(inner: Transform, outer: Transform) -> Compose:
    """Make one Compose of the members of two transforms."""
    members = [*_members(inner), *_members(outer)]
    for member in members:
        member.reset_parent()
    return Compose(*members)


def _free(chain: Transform, given: Transform) -> None:
    """Give the transform of an env that could not be made back to whoever gave it."""
    chain.reset_parent()
    if chain is not given:
        for member in _members(given):
            member.reset_parent()
            if member is not given:
                member.set_container(given)


def _changes_actions(transform: Transform) -> bool:
    return transform.invertible or type(transform).transform_action_spec is not Transform.transform_action_spec


def _members(transform: Transform) -> list[Transform]:
    return list(transform) if isinstance(transform, Compose) else [transform]


__all__ = ["TransformedEnv"]
