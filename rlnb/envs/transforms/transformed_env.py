"""``TransformedEnv``, an environment whose data passes through a transform."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import fast_tensordict, shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.normalize import as_device
from rlnb.data.ted.block import EnvRows, LeafInfo
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.base import EnvBase
from rlnb.envs.end_signals import complete_done
from rlnb.envs.rows import replaced_methods
from rlnb.envs.specs import ForgetfulCache, with_twins
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.rows import Stage, bind, stages
from rlnb.envs.transforms.transform import Transform, as_transform, checked_result


class BaseEnvAttribute:
    """An attribute of the base env that is read and written through the env around it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type | None = None) -> Any:
        """Read the attribute of the base env; ``None`` if it has none."""
        return self if env is None else getattr(env._base, self.name, None)

    def __set__(self, env: Any, value: Any) -> None:
        """Write the attribute of the base env, unless the constructor of the env sets it before there is one."""
        base = env.__dict__.get("_base")
        if base is not None:
            setattr(base, self.name, value)


class TransformedEnv(EnvBase):
    """An env around another one, whose data passes through a transform on its way out and in.

    The specs are those of the base env, changed by the transform. They cannot be set: set those of the base env, or
    append a transform. Attributes that a TransformedEnv does not have are looked up in the base env. Device, batch
    size, seed and random numbers are shared with it, and :meth:`close` closes it.

    If the base env is itself a TransformedEnv, the two become one chain: the inner transforms are cloned, and the
    innermost env is the base env.

    Rollouts write numpy rows, without a TensorDict per step, if the base env does and every transform has a row rule
    (see :mod:`rlnb.envs.transforms.rows`). Instances of subclasses never do, so that a subclass may override any
    method. Nor does an env if a method is replaced on it or on one of its transforms.

    Args:
        base_env: the env.
        transform: a :class:`Transform`, or a function that takes the data of a step or reset and returns it. Default:
            an empty :class:`Compose`. Assigning ``env.transform`` later replaces it.
        cache_specs: whether to compute the specs once, and again only when a transform or a spec of the base env
            changes. ``False`` computes them at each access, which is slow: for transforms whose effect on specs
            changes.
        auto_unwrap: whether to merge nested transforms into one chain. If ``False``, the base env may be a
            TransformedEnv.
        device: device that the base env is moved to first, as by ``base_env.to(device)``. Default: it is not moved.

    Raises:
        TypeError: If ``base_env`` is not an env, ``transform`` is not a transform, or ``cache_specs`` is not a bool.
        RuntimeError: If the transform already has a container.
        ValueError: If the transform would overwrite an entry of the env.

    Example:
        >>> from rlnb.envs import GymEnv, StepCounter
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=5))
        >>> env.rollout(100)["next", "step_count"].flatten().tolist()
        [1, 2, 3, 4, 5]
    """

    #: Added to reports on specs that do not match the data.
    _specs_follow = (
        ".\nThe specs of a TransformedEnv follow from its base env and its transforms. A transform changes the spec of "
        "a value in\n_apply_to_spec(self, spec), and adds entries in "
        "transform_observation_spec(self, observation_spec)"
    )

    _base: EnvBase
    _chain: Transform
    is_closed = BaseEnvAttribute()
    _run_type_checks = BaseEnvAttribute()
    allow_done_after_reset = BaseEnvAttribute()
    batch_locked = BaseEnvAttribute()
    _checks_data = BaseEnvAttribute()
    _random_state = BaseEnvAttribute()
    _seed = BaseEnvAttribute()

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
            raise TypeError(
                f"TransformedEnv takes an env of rlnb and got a {type(base_env).__name__}. "
                "Fix: TransformedEnv(GymEnv('CartPole-v1'), transform), or GymWrapper(env) around one of Gymnasium."
            )
        if not isinstance(cache_specs, bool):
            fix = " Fix: TransformedEnv(env, Compose(transform, ...))." if callable(cache_specs) else ""
            raise TypeError(
                "TransformedEnv takes one transform, then cache_specs, True or False, and got a "
                f"{type(cache_specs).__name__} for it.{fix}"
            )
        given = chain = Compose() if transform is None else as_transform(transform)
        chain.assert_free()
        if device is not None and base_env.device != as_device(device):
            moved: Any = base_env.to(device)
            base_env = moved
        super().__init__(base_env.device, base_env.batch_size)
        self._cache_specs = cache_specs
        if auto_unwrap and type(base_env) is TransformedEnv:
            inner = base_env.transform.clone()
            # One Compose for all, unless there is nothing to compose.
            given, chain = chain, _joined(inner, chain) if transform is not None else inner
            base_env = base_env.base_env
        self._hold(base_env, chain)
        try:
            self._refresh()
        except Exception:
            _give_back(chain, given)
            raise

    def _hold(self, base_env: EnvBase, chain: Transform) -> None:
        """Put a base env and a transform into this env."""
        chain.set_container(self)
        # Both as submodules, for train() and the like, and as plain attributes, whose lookup is faster.
        self._modules.update(base_env=base_env, transform=chain)
        self.__dict__.update(_base=base_env, _chain=chain)

    def _with_transforms(self, members: list[Transform]) -> TransformedEnv:
        """Make an env with the same base env and other transforms."""
        return TransformedEnv(self._base, Compose(*members), auto_unwrap=False)

    @property
    def base_env(self) -> EnvBase:
        """The env inside."""
        return self._base

    @property
    def transform(self) -> Transform:
        """The transform that the data passes through."""
        return self._chain

    # The chain ----------------------------------------------------------------------------------------------------

    def append_transform(self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> TransformedEnv:
        """Add a transform at the outer end.

        Args:
            transform: a :class:`Transform`, or a function that takes the data of a step or reset and returns it.

        Raises:
            TypeError: If it is not a transform.
            RuntimeError: If it already has a container.
            ValueError: If it would overwrite an entry of the env. The env is then unchanged.

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
        """Insert a transform before another one, and return the env; see :meth:`append_transform`.

        Args:
            index: index of the other one, counted from the inside; negative numbers count from the outside.
            transform: a transform or function.

        Raises:
            ValueError: If the index is out of range.
        """
        return self._insert(index, transform)

    def _insert(self, index: int | None, transform: Any) -> TransformedEnv:
        added, chain = as_transform(transform), self._chain
        length = len(chain) if isinstance(chain, Compose) else 1
        if index is not None and not -length <= index <= length:
            raise ValueError(
                f"insert_transform takes an index from {-length} to {length} for {length} transforms, and got {index}."
            )
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
        # torch.nn.Module registers a module that is assigned, and would bypass a property.
        if name == "transform":
            self._set_transform(value)
        elif name == "base_env":
            raise AttributeError("The base env of a TransformedEnv cannot be replaced. Fix: make a new TransformedEnv.")
        else:
            super().__setattr__(name, value)

    def _set_transform(self, transform: Any) -> None:
        """Replace all transforms."""
        new, old = as_transform(transform), self._chain
        if new is not old:
            new.assert_free()
            old.reset_parent()
            self._exchange(old, new, [new])

    def _exchange(self, old: Transform, new: Transform, members: list[Transform]) -> None:
        """Hold another transform. If the env cannot take it, restore the old one and free the members."""
        try:
            self._hold(self._base, new)
            self._refresh()
        except Exception:
            for member in members:
                member.reset_parent()
            self._hold(self._base, old)
            self._refresh()
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
        return checked_result(chain, chain._reset(tensordict, fresh))

    def _reset_base(self, given: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if kwargs:
            return self._base._reset(given, **kwargs)
        return self._chain._reset_base_env(given, self._base._reset)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        given = self._base_input(tensordict) if self._inverts else tensordict
        return self._after_step(tensordict, given, self._base._step(given))

    def _step_marked(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        """Step the rows of the base env that the mask selects."""
        given = self._base_input(tensordict) if self._inverts else tensordict
        return self._after_step(tensordict, given, self._base._partial_step(given, mask))

    def _base_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Apply the inverse to a copy of the input of a step."""
        chain = self._chain
        return self._base._check_actions(checked_result(chain, chain._inv_call(shallow_copy(tensordict))))

    def _after_step(self, tensordict: TensorDictBase, given: TensorDictBase, result: TensorDictBase) -> TensorDictBase:
        """Check the result of the base env's step, and transform it."""
        base, chain = self._base, self._chain
        base._assert_new(result, given, "_step")
        if not base._is_complete(result, "step"):
            base._fit_data(result, "step")
            complete_done(base, result)
            base._check_data(result, "step")
        return checked_result(chain, chain._step(tensordict, result))

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random action, drawn from the action spec; see :meth:`EnvBase.rand_action`.

        If the base env overrides ``rand_action``, its method is used, unless a transform changes the actions.
        """
        if "drawn_by_base" not in self._cache:
            changed = any(
                member.invertible or type(member).transform_action_spec is not Transform.transform_action_spec
                for member in _members(self._chain)
            )
            own = type(self._base).rand_action is not EnvBase.rand_action
            self._cache["drawn_by_base"] = own and not changed
        if self._cache["drawn_by_base"]:
            return self._base.rand_action(tensordict)
        return super().rand_action(tensordict)

    # Rows: what makes this a rlnb.envs.rows.RowEnv ------------------------------------------------------------------

    @property
    def _fills_rows(self) -> bool:
        base: Any = self._base
        if self.batch_size or not getattr(base, "_fills_rows", False) or self._stages() is None:
            return False
        if any(replaced_methods(part) for part in (self, *_all_parts(self._chain))):
            return False
        # numpy has neither gradients nor other devices.
        tensors = (*self._chain.parameters(), *self._chain.buffers())
        return not any(tensor.requires_grad or tensor.device.type != "cpu" for tensor in tensors)

    def _stages(self) -> list[Stage] | None:
        """Return what the transforms do to rows; ``None`` if they need TensorDicts, or in a subclass."""
        self._follow_base()
        if "stages" not in self._cache:
            bare = type(self) is TransformedEnv and not self._inverts
            self._cache["stages"] = self._find_stages() if bare else None
        return self._cache["stages"]

    def _find_stages(self) -> list[Stage] | None:
        base: Any = self._base
        root, next_only = base._row_leaves()
        found = stages(_flat(self._chain), base.output_spec, root, next_only)
        if found is None or self.device != base.device:
            return None
        names = {*self.observation_keys, *self.done_keys, *self.reward_keys}
        # Rows cannot leave out entries that a transform removes.
        return found if names == {*found[-1].root, *found[-1].next_only} else None

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        found = self._stages()
        assert found is not None
        return found[-1].root, found[-1].next_only

    def _row_functions(self, block: Any) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        found, base = self._stages(), self._base
        assert found is not None
        rows, steps, resets = bind(found[:-1], EnvRows(block.root, block.next))
        base_step, base_reset = base._row_functions(rows)

        def step(t: int, action: Any) -> bool:
            done = base_step(t, action)
            for act in steps:
                if act(t):
                    done = True
            return done

        def reset(t: int) -> None:
            base_reset(t)
            for act in resets:
                act(t)

        return step, reset

    @property
    def _row_chooser(self) -> Any:
        base: Any = self._base
        return getattr(base, "_row_chooser", None)

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return self._base._drawn_actions(actions)

    def _native_action(self, action: torch.Tensor) -> Any:
        return self._base._native_action(action)

    # Specs --------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Recompute the specs: a spec of the base env or a transform has changed."""
        self._stored_specs = self._transformed_specs()
        self._origin = list(self._base._specs.values())
        self._batch_size = self._chain.transform_env_batch_size(self._base.batch_size)
        self._device = self._chain.follow_device(self._base.device)
        self._inverts = self._chain.invertible
        self._unchecked = {"reset", "step"}
        self.__dict__["_cache"] = {} if self._cache_specs else ForgetfulCache()
        self._chain.empty_cache()
        self.assert_distinct_keys()

    def _transformed_specs(self) -> dict[str, Composite]:
        base, chain = self._base, self._chain
        # Inputs first: transforms of outputs must keep the entries that the env reads back.
        given = chain.transform_input_spec(base.input_spec)
        output = chain.transform_output_spec(base.output_spec)
        specs = {name: composite[name] for composite in (given, output) for name in composite}
        specs["full_done_spec"] = with_twins(specs["full_done_spec"])
        return {name: spec.lock_() for name, spec in specs.items()}

    def _follow_base(self) -> None:
        """Recompute the specs if those of the base env were replaced."""
        if self._base.is_spec_locked and not all(map(operator.is_, self._origin, self._base._specs.values())):
            self._refresh()

    @property
    def _specs(self) -> dict[str, Composite]:
        if not self._cache_specs:
            return self._transformed_specs()
        self._follow_base()
        return self._stored_specs

    @_specs.setter
    def _specs(self, specs: dict[str, Composite]) -> None:
        """Ignore the default specs that the constructor of :class:`EnvBase` sets."""

    def _set_spec(self, name: str, spec: TensorSpec, default_key: str) -> None:
        if "_base" in self.__dict__:
            public = name.removeprefix("full_")
            raise RuntimeError(
                f"The {public} of a TransformedEnv follows from its base env and its transforms, and cannot be set. "
                f"Fix: set env.base_env.{public}, or append a transform that changes it."
            )

    def _keys(self, name: str) -> list[Any]:
        self._follow_base()
        return super()._keys(name)

    def _group(self, name: str, members: tuple[str, ...]) -> Composite:
        self._follow_base()
        return super()._group(name, members)

    def add_truncated_keys(self) -> Self:
        """Add a "truncated" signal beside each "done" of the base env."""
        self._base.add_truncated_keys()
        self._follow_base()
        return self

    @property
    def is_spec_locked(self) -> bool:
        """Whether the specs of the base env are locked."""
        return "_base" not in self.__dict__ or self._base.is_spec_locked

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock or unlock the specs of the base env, from which those of this env are computed."""
        self._base.set_spec_lock_(mode)
        self._follow_base()
        return self

    def empty_cache(self) -> None:
        """Discard cached values and recompute the specs."""
        if "_base" in self.__dict__:
            self._refresh()

    # Seed, device, state, closing ---------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._base._set_seed(seed)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the base env and the random actions; see :meth:`EnvBase.set_seed`."""
        return self._base.set_seed(seed, static_seed)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the base env and the transforms to a device, and return the env; see ``torch.nn.Module.to``."""
        self._base.to(*args, **kwargs)
        self._chain.to(*args, **kwargs)
        self._refresh()
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # torch overloads it
        """Return the buffers and parameters of the transforms; see ``torch.nn.Module.state_dict``."""
        return self._chain.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load the result of :meth:`state_dict`; see ``torch.nn.Module.load_state_dict``."""
        return self._chain.load_state_dict(state_dict, *args, **kwargs)

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Close the transforms and the base env; see :meth:`EnvBase.close`."""
        self._chain.close()
        if raise_if_closed:
            self._base.close(raise_if_closed=True)
        else:
            self._base.close()  # a user's own close may take no arguments

    def fake_tensordict(self) -> TensorDict:
        """Make a step of zeros with the keys, shapes and dtypes of a real one; see :meth:`EnvBase.fake_tensordict`."""
        fake: Any = self._chain.transform_fake_tensordict(super().fake_tensordict())
        return fake

    def __del__(self) -> None:
        """Leave the base env open: others may hold it, and it closes itself when it is garbage-collected."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._chain.set_container(self)

    def __getattr__(self, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return super().__getattr__(name)
        base = self.__dict__.get("_base")
        if base is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        try:
            return getattr(base, name)
        except AttributeError as error:
            raise AttributeError(
                f"Neither {type(self).__name__} nor the {type(base).__name__} in it has an attribute {name!r}."
            ) from error

    def __repr__(self) -> str:
        env = f"env={self._base!r}".replace("\n", "\n    ")
        transform = f"transform={self._chain!r}".replace("\n", "\n    ")
        return f"{type(self).__name__}(\n    {env},\n    {transform})"


def _joined(inner: Transform, outer: Transform) -> Compose:
    """Make one Compose of the members of two transforms."""
    members = [*_members(inner), *_members(outer)]
    for member in members:
        member.reset_parent()
    return Compose(*members)


def _give_back(chain: Transform, given: Transform) -> None:
    """Restore the containers of a transform whose env could not be made."""
    chain.reset_parent()
    if chain is not given:
        for member in _members(given):
            member.reset_parent()
            if member is not given:
                member.set_container(given)


def _members(transform: Transform) -> list[Transform]:
    return list(transform) if isinstance(transform, Compose) else [transform]


def _all_parts(transform: Transform) -> list[Transform]:
    """Return a transform, and the transforms in it at every level."""
    inner = transform if isinstance(transform, Compose) else ()
    return [transform, *(part for member in inner for part in _all_parts(member))]


def _flat(transform: Transform) -> list[Transform]:
    """Return the transforms in nested chains, from the inside to the outside. Subclasses of Compose count as one."""
    return [part for member in transform for part in _flat(member)] if type(transform) is Compose else [transform]
