"""Abstract base class of all environments: ``reset``, ``step`` and ``rollout`` over TensorDicts."""

from __future__ import annotations

import contextlib
import inspect
import operator
import weakref
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import del_entry, entry, merge_entries, raw_entries, set_entry, shallow_copy
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.normalize import as_device
from rlnb.data.ted.keys import DONE, TRUNCATED, NestedKey, as_key, as_tuple, by_depth
from rlnb.data.ted.step_mdp import NextStep
from rlnb.envs import specs as env_specs
from rlnb.envs import validation
from rlnb.envs.end_signals import ClearSignal, complete_done, override, terminated_or_truncated
from rlnb.envs.partial_reset import (
    Masks,
    blank_missing,
    deciding,
    ended_masks,
    is_ragged,
    merge_ragged,
    merge_reset,
    reset_masks,
    reset_to_state,
)
from rlnb.envs.randomness import RandomState
from rlnb.envs.rollout import rollout
from rlnb.envs.specs import composite_property, leaf_property, only_key, spec_keys, unbatched

if TYPE_CHECKING:
    from rlnb.envs.transforms.transform import Transform
    from rlnb.envs.transforms.transformed_env import TransformedEnv


class AutoResetMeta(ABCMeta):
    """Metaclass of :class:`~rlnb.envs.EnvBase`: ``SomeEnv(..., auto_reset=True)`` makes an ``AutoResetEnv``.

    It takes the two keywords itself, so every class has them and no ``__init__`` has to pass them on.
    """

    def __call__(
        cls, *args: Any, auto_reset: bool | None = None, auto_reset_replace: bool | None = None, **kwargs: Any
    ) -> Any:
        """Make an env, wrapped in an ``AutoResetEnv`` if it resets itself.

        Args:
            *args: for the class.
            auto_reset: whether the env resets itself: the observation of a step that ends an episode is the first one
                of the next episode.
            auto_reset_replace: replace that observation, which does not belong to the episode that ended, by a
                placeholder under "next". Default: True.
            **kwargs: for the class.
        """
        for name, value in (("auto_reset", auto_reset), ("auto_reset_replace", auto_reset_replace)):
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False and is {value!r}.")
        if auto_reset is None and auto_reset_replace is not None:
            raise ValueError(
                "auto_reset_replace applies to an env that resets itself, and auto_reset=True was not given. "
                f"Fix: {cls.__name__}(..., auto_reset=True, "
                f"auto_reset_replace={auto_reset_replace})."
            )
        env = super().__call__(*args, **kwargs)
        if isinstance(env, cls):
            env_specs.close_specs(env)  # specs could be edited in place while __init__ ran
        return env._auto_resetting(auto_reset_replace) if auto_reset else env

    @property
    def __signature__(cls) -> inspect.Signature:
        """Signature of ``__init__`` with the two keywords; without it, tools would show ``(*args, **kwargs)``."""
        init = cls.__init__  # type: ignore[misc]  # of a class, not of an instance
        own = list(inspect.signature(init).parameters.values())[1:]
        variadic = [own.pop()] if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else []
        names = ("auto_reset", "auto_reset_replace")
        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        return inspect.Signature([*own, *added, *variadic])


class EnvBase(torch.nn.Module, metaclass=AutoResetMeta):
    """Base class of all environments.

    A subclass sets its specs in ``__init__`` and implements three methods: ``_reset`` and ``_step``, which return a
    new TensorDict with the data of a reset or step at its root, and ``_set_seed``. A spec is assigned as a leaf, which
    gets the customary key, or as a composite; its shape starts with the batch size.

    Args:
        device: device of the returned tensors. ``None`` (the default) leaves tensors where the env creates them.
        batch_size: the number of envs that are batched together, as a shape; all specs start with it. Default:
            ``torch.Size([])``.
        run_type_checks: check the data of every step against the specs. ``None`` (the default) checks the first reset
            and the first step; ``False`` checks nothing.
        allow_done_after_reset: accept an env that is done right after a reset.

    Attributes:
        batch_locked: ``False`` for a stateless env, which takes inputs of any batch size.
        is_closed: whether the env was closed.

    Example:
        >>> from rlnb.data import Categorical, Unbounded
        >>> class Corridor(EnvBase):
        ...     '''Three steps to the right.'''
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.observation_spec = Unbounded(shape=(1,))
        ...         self.action_spec = Categorical(2)
        ...     def _reset(self, tensordict=None, **kwargs):
        ...         return TensorDict({"observation": torch.zeros(1)})
        ...     def _step(self, tensordict):
        ...         position = tensordict["observation"] + tensordict["action"]
        ...         return TensorDict({"observation": position, "reward": -torch.ones(1), "done": position >= 3})
        ...     def _set_seed(self, seed):
        ...         pass
        >>> Corridor().rollout(10, lambda observation: torch.tensor(1))["next", "observation"].flatten()
        tensor([1., 2., 3.])
    """

    batch_locked: bool = True

    #: Completes the sentence of a report that proposes specs, for envs whose specs follow from others'; else empty.
    _specs_follow = ""

    def __init__(
        self,
        device: torch.device | str | int | None = None,
        batch_size: Sequence[int] | None = None,
        *,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if isinstance(batch_size, int):
            raise TypeError(
                f"batch_size must be a sequence of integers, got {batch_size}. Fix: batch_size=[{batch_size}]."
            )
        early_device, early_size = self.__dict__.pop("_early_device", None), self.__dict__.pop("_early_batch_size", ())
        super().__init__()
        self._device = early_device if device is None else as_device(device)
        self._batch_size = torch.Size(early_size if batch_size is None else batch_size)
        self._cache: dict[str, Any] = {}
        self._unchecked: set[str] = set()
        names = (*env_specs.INPUT_SPECS, *env_specs.OUTPUT_SPECS)
        self._specs = {name: Composite(shape=self._batch_size, device=self._device) for name in names}
        if "_specs" in self.__dict__:  # it is a property of envs whose specs follow from others', with nothing to set
            env_specs.open_specs(self)
            env_specs.set_default_specs(self)
        for name, (spec, default_key) in self.__dict__.pop("_early_specs", {}).items():
            self._set_spec(name, spec, default_key)
        self.is_closed = False
        self._checks_data = True
        self._misfit = False
        self._warned_about: set[str] = set()
        self._random_state: RandomState | None = None
        self._clear_signal = ClearSignal()
        self.run_type_checks = run_type_checks
        self.allow_done_after_reset = allow_done_after_reset

    # For subclasses -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Return a new TensorDict with the observations of a reset (and end signals, if some are True)."""

    @abstractmethod
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a new TensorDict with the observations, rewards and end signals of a step, all at its root."""

    @abstractmethod
    def _set_seed(self, seed: int | None) -> None:
        """Seed whatever the env draws random numbers from."""

    def _step_marked(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        """Step the envs that a mask of shape ``[*batch]`` marks; the results of the other envs are not read.

        A stateless env computes all steps. An env with state overrides this method.
        """
        if self.batch_locked:
            raise RuntimeError(
                f"{type(self).__name__} steps all of its envs at once, so '_step' cannot leave some of them out. "
                "Fix: SerialEnv(n, make_env), which steps its envs one by one, or delete the entry: td.del_('_step')."
            )
        return self._step(tensordict)

    # Reset --------------------------------------------------------------------------------------------------------

    def reset(
        self, tensordict: TensorDictBase | None = None, *, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDictBase:
        """Start an episode.

        Args:
            tensordict: written to and returned, if given. Where it has a "_reset" entry beside a "done", only the
                envs marked there are reset, and the data of the others stays as it is.
            set_state: ``True`` starts from the state in ``tensordict``, in a stateless env whose observations are its
                state. ``False`` and ``None`` (the default) leave the state to the env.
            **kwargs: passed to the env's own ``_reset``.

        Returns:
            The first observations of shape ``[*batch_size, ...]`` and end signals.

        Raises:
            NotImplementedError: If ``set_state`` is True and the env cannot start from a given state.
            RuntimeError: If the batch size is not the env's, the env is done right after its reset or its data does
                not fit its specs.
        """
        if set_state:
            return reset_to_state(self, tensordict, **kwargs)
        self._assert_open("reset")
        masks: Masks = {}
        if tensordict is not None:
            self._assert_batch_size(tensordict, "reset")
            validation.check_unlocked(tensordict, "reset")
            masks = reset_masks(self, tensordict)
            if masks and not any(mask.any() for mask in deciding(masks).values()):
                return tensordict.exclude(*self.reset_keys, inplace=True)
        return self._reset_where(tensordict, masks, **kwargs)

    def set_state(self) -> None:
        """Not implemented, as in TorchRL: ``env.reset(td, set_state=True)`` starts a stateless env from a state."""
        raise NotImplementedError("set_state has no general form. Fix: env.reset(td, set_state=True).")

    def _reset_where(self, tensordict: TensorDictBase | None, masks: Masks, **kwargs: Any) -> TensorDictBase:
        """Reset, validate the data, and merge it into the input where the masks say so."""
        fresh = self._reset(tensordict, **kwargs)
        self._assert_new(fresh, tensordict, "_reset")
        if not self._is_complete(fresh, "reset"):
            self._check_specs("reset")
            self._fit_data(fresh, "reset")
            complete_done(self, fresh, at_reset=True)
            self._check_data(fresh, "reset")
            if tensordict is not None:
                blank_missing(self, fresh, tensordict)
        if self.ndim and (is_ragged(fresh) or is_ragged(tensordict)):
            if not self.allow_done_after_reset:
                validation.check_not_done(self, fresh, deciding(masks))
            return fresh if tensordict is None else merge_ragged(self, tensordict, fresh, masks)
        entries = raw_entries(fresh) if tensordict is None else merge_reset(tensordict, fresh, masks, self.ndim)
        if not self.allow_done_after_reset:
            done = entries.get(DONE) if len(self._done_levels()) == 1 else None
            if done is None or not self._clear_signal.check(done):
                validation.check_not_done(self, fresh, deciding(masks))
        if tensordict is None:
            return fresh
        for level in masks:
            del_entry(tensordict, as_key((*level, "_reset")))
        merge_entries(tensordict, entries)
        return tensordict

    def _done_levels(self) -> list[tuple[tuple[str, ...], NestedKey]]:
        """The levels that have end signals, each with the key of its "done"."""
        if "done_levels" not in self._cache:
            levels = [as_tuple(group[0])[:-1] for group in self.done_keys_groups]
            self._cache["done_levels"] = [(level, as_key((*level, DONE))) for level in levels]
        return self._cache["done_levels"]

    # Step ---------------------------------------------------------------------------------------------------------

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take one step.

        Args:
            tensordict: the output of ``reset`` or ``step_mdp``, with an action. Entries that it already has under
                "next" are kept: they override what the step computes. A "_step" entry, bool of shape
                ``[*batch_size]``, marks the envs that take the step.

        Returns:
            The same TensorDict, with the results under "next".

        Raises:
            KeyError: If there is no action.
            ValueError: If an action has the wrong shape.
            TypeError: If an action has the wrong dtype.
            RuntimeError: If the env is closed or was not reset, the batch size is not the env's, or its data does not
                fit its specs.
        """
        self._assert_open("step")
        self._assert_batch_size(tensordict, "step")
        validation.check_unlocked(tensordict, "step")
        validation.check_not_over(self, tensordict)
        inputs = self._check_actions(tensordict)
        given = entry(tensordict, "next")
        partial = entry(tensordict, "_step")
        result = self._step(inputs) if partial is None else self._partial_step(inputs, partial)
        self._assert_new(result, tensordict, "_step")
        if given is not None:
            override(self, result, given)
        if not self._is_complete(result, "step"):
            self._check_specs("step")
            self._fit_data(result, "step")
            complete_done(self, result)
            self._check_data(result, "step")
        return set_entry(tensordict, "next", result)

    forward = step

    def _partial_step(self, tensordict: TensorDictBase, partial: torch.Tensor) -> TensorDictBase:
        """Step the envs that a mask, bool ``[*batch]``, marks; the others keep their data, and their reward is 0.

        Dimensions of size 1 behind those of the batch are ignored.
        """
        batch = tensordict.batch_size
        if partial.dtype is not torch.bool or partial.numel() != batch.numel():
            raise ValueError(
                f"The entry '_step' marks the envs that take the step: expected shape {tuple(batch)} and dtype "
                f"torch.bool, got {tuple(partial.shape)} and {partial.dtype}."
            )
        mask = partial.reshape(batch)
        if bool(mask.all()):
            return self._step(tensordict)
        lead = batch[: len(batch) - self.ndim]
        kept = Composite(shape=self.batch_size, device=self.device).zero(lead)
        for spec in (self.observation_spec, self.full_done_spec, self.full_reward_spec):
            kept.update(spec.zero(lead))
        kept.update(tensordict.select(*self.observation_keys, *self.done_keys, strict=False).clone())
        if bool(mask.any()):
            stepped = self._step_marked(tensordict, mask)
            self._fit_data(stepped, "step")
            complete_done(self, stepped)
            merge_entries(kept, merge_reset(kept, stepped, {(): mask}, len(batch)))
        return kept

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take one step, and reset the envs that it ended.

        Args:
            tensordict: as for :meth:`step`.

        Returns:
            The step, with "next", and the input of the following step: ``step_mdp`` of it, or the data of a reset
            where the env is done.
        """
        tensordict = self.step(tensordict)
        return tensordict, self.maybe_reset(self._step_mdp(tensordict))

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Reset the envs that are done in ``tensordict``, the output of :meth:`step_mdp`, and only them.

        Returns:
            ``tensordict`` itself if no env is done, else a copy with the data of the reset where one is.
        """
        self._assert_batch_size(tensordict, "maybe_reset")
        masks = ended_masks(self, tensordict)
        if not masks:
            return tensordict
        tensordict = shallow_copy(tensordict)
        for level, mask in masks.items():
            set_entry(tensordict, as_key((*level, "_reset")), mask.clone())
        if type(self).reset is not EnvBase.reset or "reset" in self.__dict__:  # overridden, or replaced on the env
            return self.reset(tensordict)
        self._assert_open("reset")
        return self._reset_where(tensordict, masks)  # what reset() would do, without reading the masks again

    def step_mdp(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Turn a step into the input of the next one, as :func:`~rlnb.envs.utils.step_mdp` does with this env's keys.

        Args:
            next_tensordict: the output of :meth:`step`.

        Returns:
            A new TensorDict: the entries under "next", without the reward, and those that the step did not change.
        """
        return self._step_mdp(next_tensordict)

    def _step_mdp(self, tensordict: TensorDictBase) -> TensorDictBase:
        if "next_step" not in self._cache:
            self._cache["next_step"] = NextStep(self.reward_keys, self.action_keys)
        return self._cache["next_step"](tensordict)

    def any_done(self, tensordict: TensorDictBase) -> bool:
        """Return whether any env is done, and write the masks that tell :meth:`reset` which ones.

        Args:
            tensordict: a step, whose end signals are under "next", or the output of ``step_mdp``. If an env is done,
                "_reset" masks are written into it.
        """
        data = tensordict.get("next", None)
        data = tensordict if data is None else data
        return terminated_or_truncated(data, self.full_done_spec, key="_reset")

    # Actions ------------------------------------------------------------------------------------------------------

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draw an action from the action spec, and return it in ``tensordict``, or in a new TensorDict."""
        shape: Sequence[int] = ()
        if tensordict is not None:
            self._assert_batch_size(tensordict, "rand_action")
        if tensordict is not None and not self.batch_locked:
            shape = tensordict.batch_size[: tensordict.ndim - self.ndim]
        leaves = validation.action_leaves(self)
        with self.own_randomness():
            if tensordict is None or len(leaves) != 1 or not isinstance(leaves[0][0], str):
                action = self.full_action_spec.rand(shape)
                return action if tensordict is None else tensordict.update(action)
            return set_entry(tensordict, leaves[0][0], leaves[0][1].rand(shape))

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Take one step with a random action.

        Args:
            tensordict: as for :meth:`step`, without the action.

        Returns:
            ``tensordict``, or a new one, with the action and with the results under "next".
        """
        return self.step(self.rand_action(tensordict))

    def all_actions(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """List the actions of an env that has finitely many.

        Args:
            tensordict: if given, the env is reset with it first. Of masked actions only the legal ones are listed.

        Returns:
            A TensorDict of batch size ``[n_actions, *batch_size]``.

        Raises:
            NotImplementedError: If an action is continuous.
        """
        if tensordict is not None:
            self.reset(tensordict)
        return self.full_action_spec.enumerate(use_mask=True)

    def cardinality(self, tensordict: TensorDictBase | None = None) -> int | float:
        """Count the actions.

        Args:
            tensordict: if given, the env is reset with it first. Of masked actions only the legal ones count.

        Returns:
            The number of actions, infinity if one is continuous.
        """
        if tensordict is not None:
            self.reset(tensordict)
        return self.full_action_spec.cardinality(use_mask=True)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the env, and the random actions that it draws. Torch's global generator is left alone.

        Args:
            seed: an integer from 0 to 2**64 - 1. ``None`` seeds with unpredictable numbers.
            static_seed: return ``seed`` itself, so that envs that are seeded in a chain all get the same seed.

        Returns:
            The seed for the next env of a chain, computed from this one.

        Raises:
            ValueError: If ``seed`` is not such an integer. Nothing is seeded then.
        """
        if seed is None:
            self._random_state = None
            self._set_seed(None)
            return None
        if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= seed < 2**64:
            raise ValueError(f"A seed must be an integer from 0 to 2**64 - 1 and is {seed!r}.")
        seed = operator.index(seed)
        self._set_seed(seed)
        self._random_state = RandomState(seed)
        return seed if static_seed else int(np.random.SeedSequence(seed).generate_state(1)[0])

    def own_randomness(self) -> AbstractContextManager[None]:
        """Draw random numbers for the env: from its own generator once it is seeded, from torch's until then.

        After :meth:`set_seed`, torch's generator for the env's device is restored at the end of the block.
        """
        return contextlib.nullcontext() if self._random_state is None else self._random_state.drawing(self.device)

    # Rollouts -----------------------------------------------------------------------------------------------------

    rollout = rollout

    def fake_tensordict(self) -> TensorDict:
        """Make a step of zeros with the keys, shapes and dtypes of a real one, of the env's batch size."""
        seen = Composite(shape=self.batch_size, device=self.device)
        for spec in (self.observation_spec, self.full_done_spec):
            seen.update(spec)
        root, after = seen.clone(), seen.clone()
        for spec in (self.full_state_spec, self.full_action_spec):
            root.update(spec)
        after.update(self.full_reward_spec)
        return root.zero().set("next", after.zero())

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """Compare what the env does with its specs; see :func:`~rlnb.envs.check_env_specs` for the arguments."""
        from rlnb.envs.check import check_env_specs  # built on this class

        check_env_specs(self, *args, **kwargs)

    # Specs --------------------------------------------------------------------------------------------------------

    observation_spec = composite_property("full_observation_spec", "observation", "Spec of the observations.")
    action_spec = leaf_property("full_action_spec", "action", "Spec of the action; a composite if there are several.")
    reward_spec = leaf_property("full_reward_spec", "reward", "Spec of the reward; a composite if there are several.")
    done_spec = leaf_property("full_done_spec", DONE, "Spec of the end signals; a composite if there are several.")
    state_spec = composite_property("full_state_spec", "state", "Spec of all inputs but actions.")
    full_observation_spec, full_state_spec = observation_spec, state_spec
    full_action_spec = composite_property("full_action_spec", "action", "Specs of the actions as a composite.")
    full_reward_spec = composite_property("full_reward_spec", "reward", "Specs of the rewards as a composite.")
    full_done_spec = composite_property("full_done_spec", DONE, "Specs of the end signals as a composite.")

    single_action_spec = action_spec_unbatched = unbatched("action_spec")
    single_observation_spec = observation_spec_unbatched = unbatched("observation_spec")
    single_reward_spec = reward_spec_unbatched = unbatched("reward_spec")
    single_done_spec = done_spec_unbatched = unbatched("done_spec")
    single_state_spec = state_spec_unbatched = unbatched("state_spec")
    single_full_action_spec = full_action_spec_unbatched = unbatched("full_action_spec")
    single_full_observation_spec = full_observation_spec_unbatched = unbatched("full_observation_spec")
    single_full_reward_spec = full_reward_spec_unbatched = unbatched("full_reward_spec")
    single_full_done_spec = full_done_spec_unbatched = unbatched("full_done_spec")
    single_full_state_spec = full_state_spec_unbatched = unbatched("full_state_spec")
    single_input_spec = input_spec_unbatched = unbatched("input_spec")
    single_output_spec = output_spec_unbatched = unbatched("output_spec")

    @property
    def input_spec(self) -> Composite:
        """Specs of the inputs: "full_action_spec" and "full_state_spec". Locked."""
        return self._group("input_spec", env_specs.INPUT_SPECS)

    @property
    def output_spec(self) -> Composite:
        """Specs of the outputs: "full_observation_spec", "full_reward_spec" and "full_done_spec". Locked."""
        return self._group("output_spec", env_specs.OUTPUT_SPECS)

    @property
    def specs(self) -> Composite:
        """All specs in one composite, "input_spec" and "output_spec", which outlives the env. Locked."""
        groups = {"input_spec": self.input_spec, "output_spec": self.output_spec}
        specs = Composite(groups, shape=self.batch_size, device=self.device)
        return specs.lock_() if self.is_spec_locked else specs

    def _group(self, name: str, members: tuple[str, ...]) -> Composite:
        if name not in self._cache:
            specs = {member: self._specs[member] for member in members}
            group = Composite(specs, shape=self.batch_size, device=self.device)
            if not self.is_spec_locked:
                return group
            self._cache[name] = group.lock_()
        return self._cache[name]

    _set_spec = env_specs.assign_spec  # a method, because batches and transformed envs override it

    @property
    def is_spec_locked(self) -> bool:
        """Whether the specs can only be replaced, not edited in place. False while ``__init__`` runs."""
        return not self.__dict__.get("_specs_open", False)

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock (the default) or unlock the specs, and return the env.

        Unlocked specs can be edited in place, ``env.full_done_spec["truncated"] = ...``. Until they are locked again,
        nothing derived from them is cached, so steps are slow.

        Example:
            >>> from rlnb.data import Unbounded
            >>> from rlnb.envs import PendulumEnv
            >>> env = PendulumEnv().set_spec_lock_(False)
            >>> env.observation_spec["wind"] = Unbounded(shape=())
            >>> "wind" in env.set_spec_lock_().observation_keys
            True
        """
        if mode:
            env_specs.close_specs(self)
        else:
            self._specs = {name: spec.clone().unlock_() for name, spec in self._specs.items()}
            env_specs.open_specs(self)
        return self

    def add_truncated_keys(self) -> Self:
        """Add a "truncated" signal beside each "done" in the spec, and return the env."""
        done = self.full_done_spec.clone()
        for path in [as_tuple(key) for key in done.keys(True, True)]:
            if path[-1] == DONE:
                done[as_key((*path[:-1], TRUNCATED))] = done[as_key(path)].clone()
        self.done_spec = done
        return self

    def auto_specs_(
        self,
        policy: Callable[..., Any],
        *,
        tensordict: TensorDictBase | None = None,
        action_key: NestedKey | list[NestedKey] = "action",
        done_key: NestedKey | list[NestedKey] | None = None,
        observation_key: NestedKey | list[NestedKey] = "observation",
        reward_key: NestedKey | list[NestedKey] = "reward",
    ) -> Self:
        """Infer the specs from one reset and one step, and return the env.

        All leaves are unbounded; end signals are booleans.

        Args:
            policy: chooses the action of the step.
            tensordict: passed to the reset.
            action_key: of the action, or a list.
            done_key: of "done", or a list. Default: every "done", "terminated" and "truncated".
            observation_key: of the observation, or a list. Other entries of the reset become part of the state.
            reward_key: of the reward, or a list.

        Raises:
            KeyError: If the data lacks an entry that is named.
        """
        acted = policy(self._reset(tensordict).copy())
        named = {"action_spec": action_key, "reward_spec": reward_key, "observation_spec": observation_key}
        specs = env_specs.infer_specs(acted, self._step(acted), self.batch_size, {**named, "done_spec": done_key})
        for name, spec in specs.items():
            setattr(self, name, spec)
        return self

    def assert_distinct_keys(self) -> None:
        """Raise ValueError if two specs claim the same entry, or if an entry has a reserved name.

        The names "next" and "_reset" are reserved, and an entry of the done spec has the name of an end signal.
        """
        env_specs.check_distinct_keys(self._specs)

    def empty_cache(self) -> None:
        """Forget what was derived from the specs, such as lists of keys."""
        self._cache.clear()

    # Keys ---------------------------------------------------------------------------------------------------------

    action_keys = spec_keys("full_action_spec", "Keys of the actions, those at the root first.")
    reward_keys = spec_keys("full_reward_spec", "Keys of the rewards, those at the root first.")
    done_keys = spec_keys("full_done_spec", "Keys of the end signals: done, terminated and truncated of every level.")
    state_keys = spec_keys("full_state_spec", "Keys of the inputs that are not actions.")
    action_key = only_key("action", "Key of the action. Raises KeyError if there are several.")
    reward_key = only_key("reward", "Key of the reward. Raises KeyError if there are several.")
    done_key = only_key("done", 'Key of the "done" signal. Raises KeyError if several levels have one.')

    @property
    def observation_keys(self) -> list[NestedKey]:
        """Keys of the observations, in the order of ``observation_spec``."""
        if "observation_keys" not in self._cache:
            self._cache["observation_keys"] = list(self.observation_spec.keys(True, True))
        return list(self._cache["observation_keys"])

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """Keys of the end signals, grouped by level, in the order of :attr:`reset_keys`."""
        if "done_keys_groups" not in self._cache:
            groups: dict[tuple[str, ...], list[NestedKey]] = {}
            for key in self.done_keys:
                groups.setdefault(as_tuple(key)[:-1], []).append(key)
            self._cache["done_keys_groups"] = list(groups.values())
        return [list(group) for group in self._cache["done_keys_groups"]]

    @property
    def reset_keys(self) -> list[NestedKey]:
        """A "_reset" key for each level that has end signals."""
        return [as_key((*as_tuple(group[0])[:-1], "_reset")) for group in self.done_keys_groups]

    def _keys(self, name: str) -> list[NestedKey]:
        if name not in self._cache:
            self._cache[name] = by_depth(self._specs[name].keys(True, True))
        return list(self._cache[name])

    # Batch size and device ----------------------------------------------------------------------------------------

    @property
    def batch_size(self) -> torch.Size:
        """Shape of the batch of envs: the leading shape of all data. ``__init__`` may set it."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: Sequence[int]) -> None:
        env_specs.set_batch_size(self, torch.Size(batch_size))

    @property
    def shape(self) -> torch.Size:
        """Alias of :attr:`batch_size`."""
        return self.batch_size

    @property
    def batch_dims(self) -> int:
        """Number of batch dimensions, as are ``ndim`` and ``ndimension()``."""
        return len(self._batch_size)

    ndim = batch_dims

    def ndimension(self) -> int:
        """Return :attr:`batch_dims`."""
        return self.batch_dims

    def numel(self) -> int:
        """Return the number of envs: the product of the batch size, 1 for a single env."""
        return self.batch_size.numel()

    @property
    def device(self) -> torch.device | None:
        """Device of the data. ``None`` leaves tensors where the env creates them. ``__init__`` may set it."""
        return self._device

    @device.setter
    def device(self, device: torch.device | str | int | None) -> None:
        env_specs.set_device(self, None if device is None else as_device(device))

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the env to a device: it returns its data there from now on. Takes what ``torch.nn.Module.to`` takes."""
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is not None:
            self._device = as_device(device)
            self._specs = {name: spec.to(device).lock_() for name, spec in self._specs.items()}
            self.empty_cache()
        super().to(*args, **kwargs)
        return self

    def cpu(self) -> Self:
        """Move the env to the CPU; see :meth:`to`."""
        return self.to("cpu")

    def cuda(self, device: torch.device | str | int | None = None) -> Self:
        """Move the env to a CUDA device, by default the current one; see :meth:`to`."""
        return self.to("cuda" if device is None else torch.device("cuda", device) if type(device) is int else device)

    # Validation: transformed envs call these methods on the env inside, and batches of envs override some ----------

    _assert_open = validation.check_open
    _assert_batch_size = validation.check_batch_size
    _assert_new = validation.check_is_new
    _check_actions = validation.check_actions
    _is_complete = validation.is_complete
    _fit_data = validation.fit_data
    _check_data = validation.check_data
    _check_specs = validation.check_specs

    @property
    def run_type_checks(self) -> bool:
        """Whether the data of every step is checked against the specs. After setting False, not even the first is."""
        return self._run_type_checks is True

    @run_type_checks.setter
    def run_type_checks(self, mode: bool | None) -> None:
        self._run_type_checks = None if mode is None else bool(mode)

    # Wrapping, registering, closing -------------------------------------------------------------------------------

    def append_transform(self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> TransformedEnv:
        """Wrap the env in a transform, or in a function that takes the data of a reset or step and returns it changed.

        Returns:
            The transformed env. This env is its base.
        """
        from rlnb.envs.transforms.transformed_env import TransformedEnv  # built on this class

        return TransformedEnv(self, transform)

    def _assert_restarts(self) -> None:
        """Raise if ``auto_reset=True`` was given and the env certainly does not reset itself."""

    def _auto_resetting(self, replace: bool | None) -> EnvBase:
        """Return the env that this one, which resets itself, becomes with ``auto_reset=True``."""
        from rlnb.envs.transforms.auto_reset import AutoResetEnv, AutoResetTransform  # built on this class

        self._assert_restarts()
        return AutoResetEnv(self, AutoResetTransform(replace=replace))

    @classmethod
    def register_gym(
        cls,
        id: str,
        *,
        entry_point: Callable[..., EnvBase] | None = None,
        transform: Transform | None = None,
        info_keys: Sequence[NestedKey] | None = None,
        backend: Any = None,
        to_numpy: bool = False,
        **kwargs: Any,
    ) -> None:
        """Register this class with Gymnasium, so that ``gymnasium.make(id)`` makes an env of it.

        ``gymnasium.make`` takes ``transform``, ``info_keys``, ``to_numpy`` and the env's own arguments, too. They
        override those that are given here.

        Args:
            id: in Gymnasium's format, such as ``"Corridor-v0"`` or ``"namespace/Corridor-v0"``.
            entry_point: makes the env in place of this class.
            transform: a transform, or several in a ``Compose``, around the env. Each env gets its own copy.
            info_keys: entries that are returned in the info dictionary, not in the observations. Default: none.
            backend: where to register: gymnasium, which is also the default. See :class:`~rlnb.envs.set_gym_backend`.
            to_numpy: return numpy arrays and Python numbers instead of tensors.
            **kwargs: those of Gymnasium's ``register`` (``max_episode_steps``, ``reward_threshold`` and the like; its
                checks support only numpy data, so they are disabled unless ``to_numpy`` is set here). All others go to
                the env's constructor.

        Raises:
            TypeError: If ``entry_point`` cannot make an environment.
            ValueError: If ``backend`` is not gymnasium.

        Example:
            >>> import gymnasium
            >>> from rlnb.envs import PendulumEnv
            >>> PendulumEnv.register_gym("rlnb/Pendulum-v0", to_numpy=True)
            >>> sorted(gymnasium.make("rlnb/Pendulum-v0").reset(seed=0)[0])
            ['params', 'th', 'thdot']
        """
        from rlnb.envs.libs.gym.register import register_gym  # built on this class

        make_env = cls if entry_point is None else entry_point
        kwargs |= {"transform": transform, "info_keys": info_keys, "backend": backend, "to_numpy": to_numpy}
        register_gym(make_env, id, **kwargs)

    @staticmethod
    def make_parallel(create_env_fn: Callable[..., EnvBase], *, num_envs: int = 1, **options: Any) -> EnvBase:
        """Make a :class:`~rlnb.envs.ParallelEnv` of ``num_envs`` envs; see there for the other arguments."""
        from rlnb.envs.batched.parallel import ParallelEnv  # built on this class

        made: EnvBase = ParallelEnv(num_envs, create_env_fn, **options)
        return made

    def configure_parallel(self, **kwargs: Any) -> EnvBase:
        """Change how the envs of a batch are run, which only a batch such as :class:`~rlnb.envs.ParallelEnv` can.

        Raises:
            NotImplementedError: If the env is not such a batch.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not run other envs, so there is nothing to configure: {sorted(kwargs)}. "
            "Fix: ParallelEnv(n, make_env, ...)."
        )

    @property
    def collector(self) -> Any:
        """The collector that steps this env, as set by :meth:`register_collector`; else None."""
        known = self.__dict__.get("_collector")
        return None if known is None else known()

    def register_collector(self, collector: Any) -> None:
        """Set the collector that steps this env. Only a weak reference to it is kept."""
        self.__dict__["_collector"] = weakref.ref(collector)

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Close the env. Stepping it raises an error until the next reset, which starts it again if it can.

        Raises:
            RuntimeError: If the env is closed already and ``raise_if_closed`` is True.
        """
        if not self.is_closed:
            self.is_closed = True
            self._release()
        elif raise_if_closed:
            raise RuntimeError(
                f"close(raise_if_closed=True) was called on a {type(self).__name__} that is closed already. "
                "Fix: env.close(), which may be called twice."
            )

    def _release(self) -> None:
        """End what the env runs, such as a backend; called once it is closed."""

    def __del__(self) -> None:
        # At interpreter exit anything may be gone already, contextlib too, and there is no one to report errors to.
        try:
            if not self.is_closed:
                self.close()
        except Exception:
            pass

    def __getattr__(self, name: str) -> Any:
        if name in ("_specs", "_batch_size", "_device"):
            raise RuntimeError(
                f"{type(self).__name__}.__init__ reads an attribute that EnvBase.__init__ sets. Fix: call "
                "super().__init__(batch_size=..., device=...) first."
            )
        if name == "render":
            raise AttributeError(
                f"{type(self).__name__} has no render method, so there are no frames of it. Fix: render an env of "
                'Gymnasium, GymEnv("CartPole-v1", render_mode="rgb_array").'
            )
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name == "batch_locked" and "_modules" in own and self.is_spec_locked:
            raise AttributeError(
                f"batch_locked belongs to the class {type(self).__name__}, whose _step takes any batch size or does "
                f"not. Only __init__ can set it. Fix: class MyEnv({type(self).__name__}): batch_locked = {value!r}."
            )
        # torch.nn.Module registers parameters, modules and buffers. It spends 3 us on each other value, and the state
        # of an env changes with every step.
        if type(value) is torch.Tensor:
            is_plain = name in own
        elif isinstance(value, (torch.nn.Module, torch.Tensor)) or "_modules" not in own:
            is_plain = False
        else:
            is_plain = not (name in own["_modules"] or name in own["_parameters"] or name in own["_buffers"])
        if is_plain:
            super(torch.nn.Module, self).__setattr__(name, value)
        else:
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_size={self.batch_size}, device={self.device})"
