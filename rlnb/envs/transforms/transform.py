"""``Transform``, the base class of all transforms of environment and buffer data, and plain functions as transforms."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb._tensordict import shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_keys, as_tuple
from rlnb.data.ted.leaves import is_branch
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.rows import Carried, RowRule

if TYPE_CHECKING:
    from rlnb.envs.transforms.transformed_env import TransformedEnv

Keys = NestedKey | Sequence[NestedKey]

#: The method that changes each group of an env's output specs, and of its input specs.
_OUTPUT_METHODS = {
    "full_observation_spec": "transform_observation_spec",
    "full_reward_spec": "transform_reward_spec",
    "full_done_spec": "transform_done_spec",
}
_INPUT_METHODS = {"full_action_spec": "transform_action_spec", "full_state_spec": "transform_state_spec"}


class Transform(torch.nn.Module):
    """Base class of all transforms.

    A transform changes the data that an env returns and the data that it is given:

    - **Forward**, after each step and reset: a subclass implements ``_apply_transform``, which changes one value, or
      ``_call``, which changes the whole data of a step or reset. Where the two differ, it overrides ``_step`` and
      ``_reset``.
    - **Inverse**, before each step: ``_inv_apply_transform`` or ``_inv_call``.
    - **Specs**: ``_apply_to_spec`` and ``_inv_apply_to_spec`` for the spec of one value, or
      ``transform_observation_spec`` and its siblings for a whole Composite.

    Called as a module, a transform changes data forward, such as a sample of a replay buffer; :meth:`inv` applies the
    inverse, such as to data that is about to be stored. There ``("next", "observation")`` is a key like any other.

    State that a transform carries from step to step belongs in the data, through ``self._carried``, because the rows
    of a batch are reset one by one.

    A transform is held by one container, a :class:`TransformedEnv` or a :class:`Compose`. It refers to its container
    weakly: when the container is garbage-collected, the transform is free again.

    Rollouts of some envs write numpy rows and skip TensorDicts (see :mod:`rlnb.envs.transforms.rows`). A class takes
    part only if its own body declares ``_elementwise = True`` or defines ``_row_rule``. Neither is inherited, so a
    subclass may override any method and is called through TensorDicts.

    A subclass documents its keys only where they mean something else, or have other defaults, than here. Each raises
    ``ValueError`` if its keys do not pair up.

    Args:
        in_keys: entries to read.
        out_keys: entries to write, one for each of ``in_keys``. Default: ``in_keys``.
        in_keys_inv: entries that the inverse writes: inputs of the base env.
        out_keys_inv: entries that the inverse reads, one for each of ``in_keys_inv``: the names of these inputs
            outside of the transform. Default: ``in_keys_inv``.

    Attributes:
        missing_tolerance: whether missing entries are skipped.
        enable_inv_on_reset: whether a reset applies ``inv`` to all of its input. Default: only to the env's state.

    Raises:
        TypeError: If a key is neither a string nor a tuple of strings.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> class Double(Transform):
        ...     '''Doubles values; doubled actions are halved for the env.'''
        ...     def _apply_transform(self, value):
        ...         return value * 2
        >>> env = TransformedEnv(CartPoleEnv(), Double(in_keys=["reward"]))
        >>> env.rollout(3)["next", "reward"].flatten()
        tensor([2., 2., 2.])
    """

    missing_tolerance: bool = False
    enable_inv_on_reset: bool = False
    #: Whether ``_apply_transform`` is a function of its value alone and all that the transform does, so that rollouts
    #: may call it on rows. Applies only to the class that sets it, not to subclasses.
    _elementwise: bool = False
    #: Whether an ``_inv_call`` of the class changes anything without ``in_keys_inv``.
    _inverts_whole: bool = True
    #: Whether ``_reset_env_preprocess`` must run for a reset without input, because it adds entries.
    _fills_resets: bool = False
    #: The attributes that ``repr`` shows; "keys" stands for ``in_keys``.
    _shown: ClassVar[tuple[str, ...]] = ("keys",)
    #: Why the transform works in an env only, for the error of :meth:`forward`; ``None`` if it does not need one.
    _env_only: str | None = None
    _known_keys: frozenset[tuple[str, ...]] | None
    _states: frozenset[NestedKey]
    _reward_specs: dict[NestedKey, TensorSpec]

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__()
        self._container: weakref.ref[Any] | None = None
        self.__dict__["_parent"] = None
        self.in_keys = key_list(in_keys, "in_keys")
        self.out_keys = list(self.in_keys) if out_keys is None else key_list(out_keys, "out_keys")
        self.in_keys_inv = key_list(in_keys_inv, "in_keys_inv")
        self.out_keys_inv = list(self.in_keys_inv) if out_keys_inv is None else key_list(out_keys_inv, "out_keys_inv")
        self._at_reset = False
        self._forget()
        self._pair_up()

    def _pair_up(self) -> None:
        """Raise ``ValueError`` if the lists of keys do not have the same length."""
        for first, second in (("in_keys", "out_keys"), ("in_keys_inv", "out_keys_inv")):
            n_first, n_second = len(getattr(self, first)), len(getattr(self, second))
            if n_first != n_second:
                raise ValueError(errors.unequal_keys(self, first, n_first, second, n_second))

    # Forward ------------------------------------------------------------------------------------------------------

    def _apply_transform(self, value: Any) -> Any:
        """Change one value; its leading dimensions are any batch and time dimensions."""
        raise NotImplementedError(
            f"{type(self).__name__} has in_keys={self.in_keys}, but does not define what to do with them. "
            "Fix: implement _apply_transform, which changes one value, or _call, which changes the data of a step."
        )

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Change the data of a step or reset in place and return it. The default changes it value by value."""
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            value = self._read(next_tensordict, in_key)
            if value is not None:
                next_tensordict.set(out_key, self._apply_transform(value))
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Change the data of a step, ``next_tensordict``; ``tensordict`` is the input of the step."""
        return self._call(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Change the data of a reset, ``tensordict_reset``; ``tensordict`` is the input of the reset.

        ``tensordict`` may hold "_reset" masks that select the rows to reset. The other rows of ``tensordict_reset``
        are undefined, and their results are discarded.

        The default calls ``_call``. A ``_call`` that cannot do without the reward, which resets do not return, is
        given rewards of 0, which are removed again.
        """
        self.__dict__["_at_reset"] = True
        try:
            if self._needs_rewards:
                return self._call_with_rewards(tensordict_reset)
            return self._call(tensordict_reset)
        except (KeyError, TypeError, AttributeError):
            if self._needs_rewards or not self._may_need_rewards(tensordict_reset):
                raise
            result = self._call_with_rewards(tensordict_reset)
            self.__dict__["_needs_rewards"] = True
            return result
        finally:
            self.__dict__["_at_reset"] = False

    def _may_need_rewards(self, data: TensorDictBase) -> bool:
        """Whether ``_call`` is user-defined and may have failed because the data of a reset has no rewards."""
        own = type(self)._call is not Transform._call and not type(self)._call.__module__.startswith("rlnb.")
        return own and any(data.get(key, None) is None for key in self._reward_specs)

    def _call_with_rewards(self, data: TensorDictBase) -> TensorDictBase:
        added = [key for key in self._reward_specs if data.get(key, None) is None]
        filled = shallow_copy(data)
        for key in added:
            filled.set(key, self._reward_specs[key].zero())
        result = checked_result(self, self._call(filled))
        for key in added:
            if result.get(key, None) is not None:
                result.del_(key)
        return result

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Turn the input of a reset into that of the base env, in a new TensorDict if anything changes.

        The default applies the inverse to the env's state, but not to actions.
        """
        if self.enable_inv_on_reset:
            return self.inv(tensordict)
        pairs = [pair for pair in zip(self.in_keys_inv, self.out_keys_inv, strict=True) if pair[0] in self._states]
        found = {in_key: tensordict.get(out_key, None) for in_key, out_key in pairs}
        found = {in_key: value for in_key, value in found.items() if value is not None}
        if not found:
            return tensordict
        tensordict = shallow_copy(tensordict)
        for in_key, value in found.items():
            tensordict.set(in_key, self._inv_apply_transform(value))
        return tensordict

    def _reset_base_env(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        """Reset the base env, or return the data of a reset that it has already done by itself."""
        return reset(given)

    def _step_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Turn the input of ``_step`` into that of the transforms before this one."""
        return tensordict

    @property
    def _changes_input(self) -> bool:
        """Whether ``_step_input`` changes anything."""
        return type(self)._step_input is not Transform._step_input

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        """Return what the transform does to rows of data above an env of this spec, or ``None`` if it cannot.

        Used only if the class itself defines it; see :func:`~rlnb.envs.transforms.rows.row_rule`.
        """
        return None

    @property
    def _changes_resets(self) -> bool:
        """Whether ``_reset_env_preprocess`` may change anything."""
        own = type(self)._reset_env_preprocess is not Transform._reset_env_preprocess
        return own or self.enable_inv_on_reset or any(key in self._states for key in self.in_keys_inv)

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change data of any batch size, such as a sample of a buffer, in place, and return it.

        Args:
            tensordict: data of any batch size. Entries under "next" change only if ``in_keys`` names them.

        Raises:
            KeyError: If an entry of ``in_keys`` is missing.
            NotImplementedError: If the transform works in an env only.
        """
        if self._env_only is not None:
            raise NotImplementedError(errors.needs_env(self, self._env_only))
        return self._call(tensordict)

    # Inverse ------------------------------------------------------------------------------------------------------

    def _inv_apply_transform(self, value: Any) -> Any:
        """Apply the inverse to one value."""
        raise NotImplementedError(
            f"{type(self).__name__} has in_keys_inv={self.in_keys_inv}, but no inverse. "
            "Fix: leave in_keys_inv out, or implement _inv_apply_transform."
        )

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Apply the inverse to the input of a step, in place, and return it. The default goes value by value."""
        for in_key, out_key in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            value = self._read(tensordict, out_key)
            if value is not None:
                tensordict.set(in_key, self._inv_apply_transform(value))
        return tensordict

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Apply the inverse to a copy of the data.

        Args:
            tensordict: the input of a step, or data that a buffer is about to store; it is not changed.

        Returns:
            The copy, which shares unchanged entries with ``tensordict``; ``tensordict`` itself if nothing changes.

        Raises:
            KeyError: If an entry of ``out_keys_inv`` is missing.
            NotImplementedError: If the transform has no inverse.
        """
        return self._inv_call(shallow_copy(tensordict)) if self.invertible else tensordict

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        whole = self._inverts_whole and type(self)._inv_call is not Transform._inv_call
        return bool(self.in_keys_inv) or whole

    # Missing entries ----------------------------------------------------------------------------------------------

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Set whether missing entries are skipped instead of raising ``KeyError``.

        A reset always skips entries that only steps return, such as the reward.

        Args:
            mode: whether missing entries are skipped. Default: False, they raise.
        """
        self.missing_tolerance = mode

    def _read(self, data: TensorDictBase, key: NestedKey) -> Any:
        """Read an entry; ``None`` if it is missing and may be."""
        value = data.get(key, None)
        if value is None and not self.missing_tolerance:
            # The first step may still return entries that the env's specs name; the env checks that itself.
            if self._at_reset and (self._known_keys is None or as_tuple(key) in self._known_keys):
                return None
            raise errors.missing_key(self, key, data, self._at_reset)
        return value

    def _need(self, data: TensorDictBase, key: NestedKey) -> Any:
        """Read an entry that must be present."""
        value = data.get(key, None)
        if value is None:
            raise errors.missing_key(self, key, data, False)
        return value

    def _nearest_done(self, data: TensorDictBase, key: NestedKey) -> Any:
        """Read the "done" under "next" of a rollout that is nearest at or above an entry."""
        path = as_tuple(key)
        for depth in range(len(path) - 1, 0, -1):
            done = data.get(("next", *path[:depth], DONE), None)
            if done is not None:
                return done
        return self._need(data, ("next", DONE))

    # Specs of one value -------------------------------------------------------------------------------------------

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        """Return the spec of the result of ``_apply_transform`` on a value of ``spec``."""
        return spec

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        """Return the spec of the values that ``_inv_apply_transform`` maps to values of ``spec``."""
        return spec

    # Specs of one group of entries --------------------------------------------------------------------------------

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Change the spec of the observations, and return it or a new one.

        Args:
            observation_spec: an unlocked copy that may be changed. A direct call may also pass the spec of one value.
        """
        return self._forward_specs(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Change the spec of the rewards; see :meth:`transform_observation_spec`."""
        return self._forward_specs(reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Change the spec of the end signals; see :meth:`transform_observation_spec`."""
        return self._forward_specs(done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Change the spec of the actions, from what the base env takes to what the transformed env takes.

        See :meth:`transform_observation_spec`.
        """
        return self._inverse_specs(action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Change the spec of inputs other than actions; see :meth:`transform_action_spec`."""
        return self._inverse_specs(state_spec)

    def _forward_specs(self, composite: Composite) -> Composite:
        """Change the specs of ``in_keys`` in a group of output specs."""
        if not isinstance(composite, Composite):
            return self._apply_to_spec(composite) if self.in_keys else composite
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            spec = composite.get(in_key)
            if spec is not None:
                composite.set(out_key, self._apply_to_spec(spec))
        return composite

    def _inverse_specs(self, composite: Composite) -> Composite:
        """Change the specs of ``in_keys_inv`` in a group of input specs."""
        if not isinstance(composite, Composite):
            return self._inv_apply_to_spec(composite) if self.in_keys_inv else composite
        _move_inputs(self, composite, self._inv_apply_to_spec)
        return composite

    def _need_composite(self, spec: Any) -> None:
        """Raise ``ValueError`` for the spec of one value, where entries are added or removed."""
        if not isinstance(spec, Composite):
            raise ValueError(
                f"{type(self).__name__} adds or removes entries and takes a Composite spec, but got a "
                f"{type(spec).__name__}. Fix: Composite(observation=spec)."
            )

    # All specs ----------------------------------------------------------------------------------------------------

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Return the specs of everything that the env returns after the transform, in a new Composite.

        Called whenever a spec of the base env or a transform changes. This is also where a transform learns the keys
        of its env (``_learn_output``).

        Args:
            output_spec: with "full_observation_spec", "full_reward_spec" and "full_done_spec".

        Raises:
            ValueError: If the transform would overwrite an entry that is not among its ``in_keys``.
        """
        self._learn_output(output_spec)
        self._known_keys = frozenset(as_tuple(key)[1:] for key in output_spec.keys(True))
        rewards = output_spec["full_reward_spec"]
        self._reward_specs = {key: rewards[key] for key in rewards.keys(True, True)}
        self._refuse_overwriting(output_spec)
        return self._each(output_spec, _OUTPUT_METHODS)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Return the specs of everything that the env takes before the inverse, in a new Composite.

        Args:
            input_spec: with "full_action_spec" and "full_state_spec".
        """
        self._states = frozenset(input_spec["full_state_spec"].keys(True, True))
        self._learn_input(input_spec)
        return self._each(input_spec, _INPUT_METHODS)

    def _learn_output(self, output_spec: Composite) -> None:
        """Read settings that were left out, such as keys, from the env's output specs. The default does nothing."""

    def _learn_input(self, input_spec: Composite) -> None:
        """Read settings that were left out from the env's input specs. The default does nothing."""

    def _each(self, specs: Composite, methods: dict[str, str]) -> Composite:
        changed: dict[str, Any] = {}
        for name, method in methods.items():
            changed[name] = getattr(self, method)(specs[name].clone())
            if not isinstance(changed[name], Composite):
                raise TypeError(
                    f"{type(self).__name__}.{method} must return the Composite that it was given, with its changes, "
                    f"and returned a {type(changed[name]).__name__}."
                )
        return Composite(changed, shape=changed[next(iter(methods))].shape)

    def _new_keys(self) -> list[NestedKey]:
        """Return the entries that the transform adds to the env, which must not exist there yet."""
        return [key for key in self.out_keys if key not in self.in_keys]

    def _refuse_overwriting(self, output_spec: Composite) -> None:
        groups = {name.removeprefix("full_"): output_spec[name] for name in _OUTPUT_METHODS}
        taken = {key: name for key in self._new_keys() for name, group in groups.items() if key in group}
        if taken:
            names = ", ".join(f"{key!r} (in {name})" for key, name in taken.items())
            raise ValueError(
                f"{type(self).__name__} writes {names}, which the env already has and which is not among its in_keys: "
                "one would overwrite the other. Fix: give it another out_key, or rename the env's entry first with "
                "RenameTransform."
            )

    # The env's batch size and device ------------------------------------------------------------------------------

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """Return the batch size of the env after the transform."""
        return batch_size

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """Return the device of the env's data after the transform.

        Args:
            device: device before the transform; ``None`` leaves tensors where the env creates them.
        """
        return device

    def follow_device(self, device: torch.device | None) -> torch.device | None:
        """Move the transform's tensors to the device of the data that it is given.

        Args:
            device: device of the env's data before the transform; ``None`` leaves the tensors where they are.

        Returns:
            The device of the data after the transform.
        """
        if device is not None:
            self.to(device)
        return self.transform_env_device(device)

    # Container and parent -----------------------------------------------------------------------------------------

    @property
    def container(self) -> Any:
        """The :class:`TransformedEnv` or :class:`Compose` that holds the transform, or ``None``."""
        return None if self._container is None else self._container()

    def set_container(self, container: Any) -> None:
        """Put the transform into a container, to which it keeps a weak reference.

        Args:
            container: the :class:`TransformedEnv` or :class:`Compose` that holds the transform from now on.

        Raises:
            RuntimeError: If the transform has a container already.
        """
        self.assert_free()
        self._container = weakref.ref(container)
        self.empty_cache()

    def assert_free(self) -> None:
        """Raise ``RuntimeError`` if the transform has a container."""
        holder = self.container
        if holder is not None:
            raise RuntimeError(
                f"This {type(self).__name__} is already in a {type(holder).__name__}: a transform belongs to one env, "
                "because it may keep the state of that env. Fix: use transform.clone(), which shares its buffers, or "
                "make a new one."
            )

    def reset_parent(self) -> None:
        """Detach the transform from its container, so that another one may hold it."""
        self._container = None
        self.empty_cache()

    def empty_cache(self) -> None:
        """Discard the cached :attr:`parent`."""
        self.__dict__["_parent"] = None

    @property
    def parent(self) -> TransformedEnv | None:
        """The base env with all transforms before this one, or ``None`` if the transform is in no env.

        The base env is shared with the env around the transform; the transforms are clones.
        """
        if self.__dict__["_parent"] is None:
            found = self._env_and_predecessors()
            if found is not None:
                # Not by setattr: the parent is not a submodule of the transform.
                self.__dict__["_parent"] = found[0]._with_transforms(found[1])
        return self.__dict__["_parent"]

    def _env_and_predecessors(self) -> tuple[Any, list[Transform]] | None:
        """Return the env around the transform and clones of the transforms before it; ``None`` without an env."""
        holder: Any = self.container
        nested = isinstance(holder, Transform)  # in a Compose
        if not nested:
            return None if holder is None else (holder, [])
        found = holder._env_and_predecessors()
        return None if found is None else (found[0], [*found[1], *holder._clones_before(self)])

    def _env(self) -> TransformedEnv | None:
        """Return the env around the transform, or ``None``."""
        holder = self.container
        return holder._env() if isinstance(holder, Transform) else holder

    # Hooks --------------------------------------------------------------------------------------------------------

    def init(self, tensordict: TensorDictBase) -> None:
        """Prepare the transform for data like this example. The default does nothing."""

    def dump(self, **kwargs: Any) -> None:
        """Write out recorded data. The default does nothing; recorders override it, and take options."""

    def close(self) -> None:
        """Release resources; called when the env is closed. The default does nothing."""

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """Change the result of ``env.fake_tensordict()``, zeros of the env's specs. The default changes nothing."""
        return fake_tensordict

    @property
    def collector(self) -> Any:
        """Not supported: a transform does not know the collector that runs its env. Raises ``NotImplementedError``."""
        raise NotImplementedError(
            f"{type(self).__name__}.collector is not supported: a transform does not know the collector that runs its "
            "env. Fix: hand the collector to the transform yourself, env.transform.my_collector = collector."
        )

    # Copies -------------------------------------------------------------------------------------------------------

    def clone(self) -> Self:
        """Copy the transform, without its container; the copy shares buffers and parameters with this one."""
        new = type(self).__new__(type(self))
        # Lists and dictionaries are copied, so that replaced keys and buffers stay local to one of the two; tensors
        # are shared.
        new.__dict__.update({k: v.copy() if isinstance(v, (dict, list, set)) else v for k, v in self.__dict__.items()})
        new.__dict__.update(_container=None, _parent=None)
        new._forget()
        return new

    def _forget(self) -> None:
        """Start without anything learned from the data and specs of an env: called for a new transform or clone."""
        self._known_keys, self._states, self._reward_specs = None, frozenset(), {}
        self._carried = Carried()
        self._needs_rewards = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_container": None, "_parent": None}

    def __repr__(self) -> str:
        names = {name: "in_keys" if name == "keys" else name for name in self._shown}
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, names[name])!r}' for name in names)})"


class ObservationTransform(Transform):
    """Base class of transforms that change observations, but not rewards and end signals.

    Args:
        in_keys: the observations. Default: "observation" and "pixels", whichever exist; for image transforms, "pixels".

    Example:
        >>> from tensordict import TensorDict
        >>> class Half(ObservationTransform):
        ...     '''Halves observations.'''
        ...     def _apply_transform(self, value):
        ...         return value / 2
        >>> Half()(TensorDict({"observation": torch.ones(2)}))["observation"]
        tensor([0.5000, 0.5000])
    """

    _default_keys: ClassVar[tuple[str, ...]] = ("observation", "pixels")
    #: Whether one of the default keys suffices.
    _any_of = False

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        self._any_of = in_keys is None and len(self._default_keys) > 1
        super().__init__(list(self._default_keys) if in_keys is None else in_keys, out_keys, in_keys_inv, out_keys_inv)

    def _read(self, data: TensorDictBase, key: NestedKey) -> Any:
        value = data.get(key, None)
        if value is None and self._any_of and any(data.get(other, None) is not None for other in self.in_keys):
            return None
        return super()._read(data, key) if value is None else value

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Return the spec of the rewards unchanged; see :class:`Transform`."""
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Return the spec of the end signals unchanged; see :class:`Transform`."""
        return done_spec


class _CallableTransform(Transform):
    """A function of a TensorDict, called with the data of each step and each reset.

    No spec describes the entries that it adds, and :func:`~rlnb.envs.check_env_specs` reports them. Write a
    :class:`Transform` for use in a batched env, or where the specs must list the new entries.
    """

    def __init__(self, function: Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self.function = function

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return checked_result(self, self.function(next_tensordict))


def as_transform(what: Any) -> Transform:
    """Convert a function of a TensorDict to a transform, and return a transform unchanged; otherwise ``TypeError``."""
    if isinstance(what, Transform):
        return what
    if callable(what) and not isinstance(what, type):
        return _CallableTransform(what)
    got, fix = f"a {type(what).__name__}", "TransformedEnv(env, StepCounter()), or TransformedEnv(env, lambda td: td)"
    if isinstance(what, (list, tuple)):
        fix = "Compose(*transforms)"
    elif isinstance(what, type):
        got, fix = f"the class {what.__name__}", f"{what.__name__}(...)"
    raise TypeError(f"A transform must be a Transform or a function of a TensorDict, got {got}. Fix: {fix}.")


def key_list(keys: Keys | None, name: str) -> list[NestedKey]:
    """Convert one key (a string or a tuple of strings) or several to a new list; ``None`` to an empty one.

    Raises:
        TypeError: If one of them is not a key; ``name`` is that of the argument.
    """
    if keys is None:
        return []
    for key in keys if isinstance(keys, Sequence) and not isinstance(keys, str) else [keys]:
        if not isinstance(key, str) and not (isinstance(key, tuple) and key and all(isinstance(k, str) for k in key)):
            raise TypeError(
                f"{name} must be keys, each a string or a tuple of strings, got {key!r} of type {type(key).__name__}."
            )
    return [as_key(path) for path in as_keys(keys)]


def checked_result(transform: torch.nn.Module, result: Any) -> TensorDictBase:
    """Return the result of a method of a transform; raise ``TypeError`` if it is not a TensorDict."""
    if not isinstance(result, TensorDictBase):
        raise TypeError(
            f"{transform!r} must return a TensorDict and returned a {type(result).__name__}. Fix: return the "
            "TensorDict that it was given, with its changes."
        )
    return result


# Specs -------------------------------------------------------------------------------------------------------------

#: A method of a transform that takes a spec and returns one.
_SpecMethod = Callable[[Any, Any], TensorSpec]


def _apply_to_composite(function: _SpecMethod) -> _SpecMethod:
    """Decorate ``transform_observation_spec`` or a sibling, so that it is written for the spec of one value.

    The method takes a Composite, and changes the spec of each of ``in_keys`` that it contains to that of the
    ``out_key``; or it takes the spec of one value.

    Example:
        >>> from rlnb.data import Bounded, Unbounded
        >>> from rlnb.envs.transforms import Transform
        >>> class Sine(Transform):
        ...     def _apply_transform(self, value):
        ...         return value.sin()
        ...     @_apply_to_composite
        ...     def transform_observation_spec(self, observation_spec):
        ...         return Bounded(-1, 1, shape=observation_spec.shape, dtype=observation_spec.dtype)
        >>> sine = Sine(in_keys=["angle"], out_keys=["sine"])
        >>> list(sine.transform_observation_spec(Composite(angle=Unbounded(shape=(2,)))).keys())
        ['angle', 'sine']
    """

    @functools.wraps(function)
    def method(self: Any, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, Composite):
            return function(self, spec)
        changed = spec.clone().unlock_()
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            member = spec.get(in_key)
            if member is not None and not isinstance(member, Composite):
                changed.set(out_key, function(self, member.clone()))
        return changed

    return method


def _apply_to_composite_inv(function: _SpecMethod) -> _SpecMethod:
    """Decorate ``transform_action_spec`` or another spec method of inputs, as ``_apply_to_composite`` does for outputs.

    The function takes the spec of one of ``in_keys_inv`` and returns that of the ``out_key_inv``, which replaces it.
    """

    @functools.wraps(function)
    def method(self: Any, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, Composite):
            return function(self, spec)
        changed = spec.clone().unlock_()
        groups = [changed[name] for name in _INPUT_METHODS if name in changed] or [changed]
        for group in groups:
            _move_inputs(self, group, lambda member: function(self, member))
        return changed

    return method


def _move_inputs(transform: Any, composite: Composite, change: Callable[[TensorSpec], TensorSpec]) -> None:
    """Replace the specs of ``in_keys_inv`` by changed ones under ``out_keys_inv``."""
    pairs = zip(transform.in_keys_inv, transform.out_keys_inv, strict=True)
    found = [(in_key, out_key, composite.get(in_key)) for in_key, out_key in pairs]
    found = [(in_key, out_key, spec) for in_key, out_key, spec in found if spec is not None]
    for in_key, out_key, _ in found:
        if in_key != out_key:
            remove_entry(composite, as_tuple(in_key))
    for _, out_key, spec in found:
        composite.set(out_key, change(spec.clone()))


def remove_entry(holder: Any, path: tuple[str, ...]) -> None:
    """Remove the entry at a path of a Composite or TensorDict, and what becomes empty around it."""
    (holder.pop if isinstance(holder, Composite) else holder.del_)(as_key(path))
    if len(path) > 1:
        outer = holder.get(as_key(path[:-1]))
        if (isinstance(outer, Composite) or is_branch(outer)) and outer.is_empty():
            remove_entry(holder, path[:-1])
