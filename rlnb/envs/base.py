"""EnvBase: the environment that every other one is, with reset, step and rollout over TensorDicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import del_entry, entry, raw_entries, set_entry, shallow_copy, write_entries
from rlnb.data import Categorical, Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.step_mdp import NextStep
from rlnb.envs import faults
from rlnb.envs.done import complete_done, override
from rlnb.envs.ended import terminated_or_truncated
from rlnb.envs.life import EnvLife
from rlnb.envs.partial_reset import Masks, deciding, is_ragged, merge_reset, overwrite, reset_masks
from rlnb.envs.rollout import rollout


class EnvBase(EnvLife):
    """The base of all environments.

    A subclass sets its specs in ``__init__`` and writes three methods: ``_reset`` and ``_step``, which return a new
    TensorDict with the data of a reset or of a step at its root, and ``_set_seed``.

    Args:
        device: where the data of the env lives; None (the default) for no statement.
        batch_size: how many envs are batched together; all specs start with it. Default: ``torch.Size([])``.
        run_type_checks: check the data of every step against the specs. None (the default) checks the first reset and
            the first step; False checks nothing.
        allow_done_after_reset: accept an env that is done right after a reset.

    Attributes:
        batch_locked: False for a stateless env, which takes inputs of any batch size.

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
                f"batch_size is a sequence of integers and is {batch_size}. Fix: batch_size=[{batch_size}]."
            )
        early_device, early_size = self.__dict__.pop("_early_device", None), self.__dict__.pop("_early_batch_size", ())
        size = torch.Size(early_size if batch_size is None else batch_size)
        super().__init__(early_device if device is None else torch.device(device), size)
        self.run_type_checks = run_type_checks
        self.allow_done_after_reset = allow_done_after_reset

    # For subclasses -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Return a new TensorDict with the observations of a reset (and end signals, if some are True)."""

    @abstractmethod
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a new TensorDict with the observations, rewards and end signals of a step, all at its root."""

    # Reset and step -----------------------------------------------------------------------------------------------

    def reset(
        self, tensordict: TensorDictBase | None = None, *, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDictBase:
        """Start an episode.

        Args:
            tensordict: written to and returned, if given. Where it has a "_reset" entry beside a "done", only the
                envs marked there are reset, and the data of the others stays as it is.
            set_state: True starts from the state in ``tensordict``, which only a stateless env can whose observations
                are its state. False and None (the default) leave it to the env.
            **kwargs: passed to the env's own reset.

        Returns:
            The first observations of shape ``[*batch_size, ...]`` and end signals.

        Raises:
            NotImplementedError: If ``set_state`` is asked of an env that cannot.
            RuntimeError: if the batch size is not the env's, the env is done right after its reset or its data does
                not fit its specs.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> sorted(GymEnv("CartPole-v1").reset().keys())
            ['done', 'observation', 'terminated', 'truncated']
        """
        if set_state:
            return self._reset_to(tensordict, **kwargs)
        self._assert_open("reset")
        masks: Masks = {}
        if tensordict is not None:
            self._assert_batch_size(tensordict, "reset")
            self._assert_unlocked(tensordict, "reset")
            masks = reset_masks(self, tensordict)
            if masks and not any(mask.any() for mask in deciding(masks).values()):
                return tensordict.exclude(*self.reset_keys, inplace=True)
        return self._reset_where(tensordict, masks, **kwargs)

    def _reset_to(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        """Reset to the state that a TensorDict holds."""
        state, seen = self.state_keys, set(self.observation_keys)
        if self.batch_locked or not seen.issubset(state):
            raise NotImplementedError(
                f"{type(self).__name__} cannot be reset to a given state (set_state=True): only a stateless env can, "
                "whose observations are its state. Fix: leave set_state out."
            )
        missing = [key for key in state if tensordict is None or tensordict.get(key, None) is None]
        if tensordict is None or missing:
            raise KeyError(f"reset(td, set_state=True) reads the state {state} from td, which lacks {missing}.")
        given = tensordict.select(*state).clone()
        return self.reset(tensordict, **kwargs).update(given)

    def set_state(self) -> None:
        """Not implemented, as in TorchRL: ``env.reset(td, set_state=True)`` starts a stateless env from a state.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("set_state has no general form. Fix: env.reset(td, set_state=True).")

    def _reset_where(self, tensordict: TensorDictBase | None, masks: Masks, **kwargs: Any) -> TensorDictBase:
        fresh = self._reset(tensordict, **kwargs)
        self._assert_new(fresh, tensordict, "_reset")
        if not self._is_complete(fresh, "reset"):
            self._check_specs("reset")
            self._fit_data(fresh, "reset")
            complete_done(self, fresh, at_reset=True)
            self._check_data(fresh, "reset")
            if tensordict is not None:
                self._blank_left_out(fresh, tensordict)
        if self.ndim and (is_ragged(fresh) or is_ragged(tensordict)):
            return self._reset_ragged(tensordict, fresh, masks)
        entries = raw_entries(fresh) if tensordict is None else merge_reset(tensordict, fresh, masks, self.ndim)
        if not self.allow_done_after_reset and self._may_be_done(entries):
            faults.assert_not_done(self, fresh, deciding(masks))
        if tensordict is None:
            return fresh
        for level in masks:
            del_entry(tensordict, as_key((*level, "_reset")))
        write_entries(tensordict, entries)
        return tensordict

    def _blank_left_out(self, fresh: TensorDictBase, tensordict: TensorDictBase) -> None:
        """Write zeros for observations that a reset does not give: those of the episode before are not of this one."""
        for key in self.observation_keys:
            before = tensordict.get(key, None)
            if isinstance(before, torch.Tensor) and fresh.get(key, None) is None:
                fresh.set(key, torch.zeros_like(before))

    def _reset_ragged(self, tensordict: TensorDictBase | None, fresh: TensorDictBase, masks: Masks) -> TensorDictBase:
        """Finish a reset of envs whose data may differ in shape: row by row."""
        if not self.allow_done_after_reset:
            faults.assert_not_done(self, fresh, deciding(masks))
        if tensordict is None:
            return fresh
        tensordict.exclude(*self.reset_keys, inplace=True)
        if not is_ragged(tensordict):
            tensordict = lazy_stack([row.copy() for row in tensordict.unbind(0)], 0)
        overwrite(tensordict, fresh, masks, self.ndim)
        return tensordict

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take one step.

        Args:
            tensordict: what ``reset`` or ``step_mdp`` returned, with an action. Entries that it has under "next"
                already are kept: they override what the step computes.

        Returns:
            The same TensorDict, with the results under "next".

        Raises:
            KeyError: if there is no action.
            ValueError: if an action has the wrong shape, or TypeError: the wrong dtype.
            RuntimeError: if the env is closed or was not reset, the batch size is not the env's, or its data does not
                fit its specs.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> env = GymEnv("CartPole-v1")
            >>> td = env.rand_action(env.reset())
            >>> env.step(td)["next", "reward"]
            tensor([1.])
        """
        self._assert_open("step")
        self._assert_batch_size(tensordict, "step")
        self._assert_unlocked(tensordict, "step")
        self._assert_not_over(tensordict)
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

    # Partial steps ------------------------------------------------------------------------------------------------

    def _partial_step(self, tensordict: TensorDictBase, partial: torch.Tensor) -> TensorDictBase:
        """Step the envs that the entry "_step" marks; the others keep their data, and their reward is 0."""
        batch = tensordict.batch_size
        if partial.dtype is not torch.bool or partial.numel() != batch.numel():
            raise ValueError(
                f"The entry '_step' marks the envs that take the step: expected shape {tuple(batch)} and dtype "
                f"torch.bool, got {tuple(partial.shape)} and {partial.dtype}."
            )
        mask = partial.reshape(batch)
        if bool(mask.all()):
            return self._step(tensordict)
        kept = self._unstepped(tensordict)
        if not bool(mask.any()):
            return kept
        stepped = self._step_marked(tensordict, mask)
        self._fit_data(stepped, "step")
        complete_done(self, stepped)
        write_entries(kept, merge_reset(kept, stepped, {(): mask}, len(batch)))
        return kept

    def _step_marked(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        """Step where a mask of shape ``[*batch]`` says; the results of the other envs are not read.

        A stateless env computes all steps. An env that has state of its own overrides this method.
        """
        if self.batch_locked:
            raise RuntimeError(
                f"{type(self).__name__} steps all of its envs at once, so '_step' cannot leave some of them out. "
                "Fix: SerialEnv(n, make_env), which steps each env by itself, or delete the entry: td.del_('_step')."
            )
        return self._step(tensordict)

    def _unstepped(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The results of a step that no env takes: observations and end signals as they are, rewards of zero."""
        lead = tensordict.batch_size[: tensordict.ndim - self.ndim]
        data = Composite(shape=self.batch_size, device=self.device).zero(lead)
        for spec in (self.observation_spec, self.full_done_spec, self.full_reward_spec):
            data.update(spec.zero(lead))
        return data.update(tensordict.select(*self.observation_keys, *self.done_keys, strict=False).clone())

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take one step, and reset the envs that it ended.

        Args:
            tensordict: as for :meth:`step`.

        Returns:
            The step, with "next", and the input of the step that follows: ``step_mdp`` of it, or the data of a reset
            where the env is done.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> env = GymEnv("CartPole-v1")
            >>> td_ = env.reset()
            >>> for _ in range(100):
            ...     td, td_ = env.step_and_maybe_reset(env.rand_action(td_))
        """
        tensordict = self.step(tensordict)
        after = self._step_mdp(tensordict)
        if type(self).maybe_reset is not EnvBase.maybe_reset:
            return tensordict, self.maybe_reset(after)
        masks = self._ended(after)
        return tensordict, self._reset_ended(after, masks) if masks else after

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Reset the envs that are done, and only them.

        Args:
            tensordict: the output of ``step_mdp``.

        Returns:
            ``tensordict`` itself if no env is done, else a copy with the data of the reset where one is.
        """
        self._assert_batch_size(tensordict, "maybe_reset")
        masks = self._ended(tensordict)
        return self._reset_ended(shallow_copy(tensordict), masks) if masks else tensordict

    def _ended(self, tensordict: TensorDictBase) -> Masks:
        """Find what must be reset; nothing if no env is done."""
        masks: Masks = {}
        for level, key in self._done_levels():
            done = entry(tensordict, key)
            if done is None:
                continue
            if done.dtype is not torch.bool:
                done = done.bool()
            if level == ():  # it is looked for first, and overrides those below
                if not self._none(done):
                    return {(): done}
                self._see_running(done)
                return masks
            masks[level] = done
        return masks if any(bool(mask.any()) for mask in masks.values()) else {}

    def _reset_ended(self, tensordict: TensorDictBase, masks: Masks) -> TensorDictBase:
        """Reset where masks say so; the TensorDict is written to."""
        for level, mask in masks.items():
            set_entry(tensordict, as_key((*level, "_reset")), mask.clone())
        if type(self).reset is not EnvBase.reset:
            return self.reset(tensordict)
        self._assert_open("reset")
        return self._reset_where(tensordict, masks)

    def _step_mdp(self, tensordict: TensorDictBase) -> TensorDictBase:
        if "next_step" not in self._cache:
            self._cache["next_step"] = NextStep(self.reward_keys, self.action_keys)
        return self._cache["next_step"](tensordict)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random action.

        Args:
            tensordict: written to, if given.

        Returns:
            ``tensordict``, or a new one, with an action drawn from the action spec.
        """
        shape: Sequence[int] = ()
        if tensordict is not None:
            self._assert_batch_size(tensordict, "rand_action")
        if tensordict is not None and not self.batch_locked:
            shape = tensordict.batch_size[: tensordict.ndim - self.ndim]
        leaves = self._action_leaves()
        with self.own_randomness():
            if tensordict is None or len(leaves) != 1 or not isinstance(leaves[0][0], str):
                action = self.full_action_spec.rand(shape)
                return action if tensordict is None else tensordict.update(action)
            return tensordict.set(leaves[0][0], leaves[0][1].rand(shape))

    def all_actions(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """List the actions of an env that has finitely many.

        Args:
            tensordict: if given, the env is reset with it first. Of masked actions only the legal ones are listed.

        Returns:
            A TensorDict of batch size ``[n_actions, *batch_size]``.

        Raises:
            NotImplementedError: If an action is continuous.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> GymEnv("CartPole-v1", categorical_action_encoding=True).all_actions()["action"]
            tensor([0, 1])
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

        Example:
            >>> from rlnb.envs import GymEnv
            >>> GymEnv("CartPole-v1").cardinality(), GymEnv("Pendulum-v1").cardinality()
            (2, inf)
        """
        if tensordict is not None:
            self.reset(tensordict)
        return self.full_action_spec.cardinality(use_mask=True)

    def any_done(self, tensordict: TensorDictBase) -> bool:
        """Whether any env is done. If one is, "_reset" masks that say which are written into the TensorDict.

        Args:
            tensordict: a step, or the output of ``step_mdp``.

        Returns:
            True if an end signal is True, of those under "next" where there are any.
        """
        data = tensordict.get("next", None)
        data = tensordict if data is None else data
        return terminated_or_truncated(data, self.full_done_spec, key="_reset")

    def step_mdp(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Turn a step into the input of the next one, as :func:`~rlnb.envs.utils.step_mdp` does with this env's keys.

        Args:
            next_tensordict: the output of :meth:`step`.

        Returns:
            A new TensorDict: what was under "next", without reward, and what the step did not change.
        """
        return self._step_mdp(next_tensordict)

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
        """Set the specs to what a reset and a step give. All leaves are unbounded; end signals are booleans.

        Args:
            policy: chooses the action of the step.
            tensordict: passed to the reset.
            action_key: of the action, or a list.
            done_key: of "done", or a list. Default: every "done", "terminated" and "truncated".
            observation_key: of the observation, or a list. What else the reset gives becomes part of the state.
            reward_key: of the reward, or a list.

        Returns:
            The env.

        Raises:
            KeyError: If the data has none of the entries that a key names.
        """

        def named(keys: Any) -> set[tuple[str, ...]]:
            return {as_tuple(key) for key in (keys if isinstance(keys, list) else [keys])}

        first = self._reset(tensordict)
        acted = policy(first.copy())
        after = self._step(acted)
        actions, rewards, seen = named(action_key), named(reward_key), named(observation_key)
        paths = {as_tuple(key): value for data in (acted, after) for key, value in data.items(True, True)}
        ends = {path for path in paths if path[-1] in END_KEYS} if done_key is None else named(done_key)
        missing = sorted((actions | rewards | seen) - paths.keys())
        if missing:
            raise KeyError(
                f"auto_specs_ reads {as_key(missing[0])!r}, and the data has {sorted(map(as_key, paths), key=str)}."
            )
        kinds = {"action_spec": actions, "reward_spec": rewards, "done_spec": ends, "observation_spec": seen}
        kinds["state_spec"] = paths.keys() - actions - rewards - ends - seen
        for name, members in kinds.items():
            if members or name == "state_spec":
                spec = Composite(shape=self.batch_size)
                for path in sorted(members):
                    spec[as_key(path)] = _spec_like(torch.as_tensor(paths[path]))
                setattr(self, name, spec)
        return self

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """Compare what the env does with what its specs say: :func:`~rlnb.envs.check_env_specs` of this env.

        Args:
            *args: see there.
            **kwargs: see there.
        """
        from rlnb.envs.check import check_env_specs  # built on this class

        check_env_specs(self, *args, **kwargs)

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Take one step with a random action.

        Args:
            tensordict: as for :meth:`step`, without the action.

        Returns:
            ``tensordict``, or a new one, with the action and with the results under "next".
        """
        return self.step(self.rand_action(tensordict))

    def rollout(
        self,
        max_steps: int,
        policy: Callable[..., Any] | None = None,
        callback: Callable[..., Any] | None = None,
        *,
        actions: Iterable[Any] | None = None,
        auto_reset: bool = True,
        auto_cast_to_device: bool = False,
        break_when_any_done: bool | None = None,
        break_when_all_done: bool | None = None,
        return_contiguous: bool | None = True,
        tensordict: TensorDictBase | None = None,
        set_truncated: bool = False,
        out: TensorDictBase | None = None,
        trust_policy: bool = False,
        storing_device: torch.device | str | int | None = None,
        set_state: bool | None = None,
    ) -> TensorDictBase:
        """Collect up to ``max_steps`` steps.

        Args:
            max_steps: the most steps to take.
            policy: what chooses the action. None: random actions. A TensorDictModule, or a function whose first
                argument is called ``td``, ``tensordict``, ``td_in``, ``tensordict_in`` or ``data`` or is annotated as
                a TensorDict: takes and returns the TensorDict. Any other callable: takes the observations in the order
                of ``observation_spec`` and returns the action.
            actions: the actions to take in place of a policy's, one a step: a tensor of shape ``[time, *batch_size,
                ...]``, or tensors, numbers or (for several actions) TensorDicts. The rollout ends with them.
            callback: called after each step with the step's TensorDict, or with the env and that TensorDict.
            auto_reset: start with a reset. If False, go on from ``tensordict``.
            auto_cast_to_device: move the policy's input to the policy's device, and its output back.
            break_when_any_done: stop as soon as an env is done (the default). If False, envs that are done are reset
                and the rollout goes on.
            break_when_all_done: go on, with resets, until each env has been done once.
            return_contiguous: if False, return a LazyStackedTensorDict. None: True.
            tensordict: where to go on from, or what to pass to the reset.
            set_truncated: mark the last step as truncated.
            out: a TensorDict of the rollout's size to write the result to.
            trust_policy: take a callable as one that reads and writes a TensorDict, whatever it looks like.
            storing_device: where the steps are moved to as they are collected. Default: they stay where they are.
            set_state: passed to :meth:`reset`.

        Returns:
            The steps in the TED format, of shape ``[*batch_size, time]``, the last dimension named "time".

        Raises:
            TypeError: If the policy cannot be called, as when it and ``max_steps`` are swapped.
            ValueError: if ``max_steps`` is not positive, if ``auto_reset=False`` comes without a TensorDict, if both
                a policy and actions are given or if the two break conditions contradict each other.
            KeyError: if the policy writes no action.
            RuntimeError: as for :meth:`reset` and :meth:`step`; if ``set_truncated`` is asked of an env that has no
                "truncated".

        Example:
            >>> from rlnb.envs import GymEnv
            >>> env = GymEnv("CartPole-v1")
            >>> env.rollout(100, break_when_any_done=False).batch_size
            torch.Size([100])
        """
        return rollout(
            self,
            max_steps,
            policy,
            callback,
            auto_reset=auto_reset,
            auto_cast_to_device=auto_cast_to_device,
            break_when_any_done=break_when_any_done,
            break_when_all_done=break_when_all_done,
            return_contiguous=return_contiguous,
            tensordict=tensordict,
            set_truncated=set_truncated,
            out=out,
            trust_policy=trust_policy,
            actions=actions,
            storing_device=storing_device,
            set_state=set_state,
        )

    @staticmethod
    def make_parallel(create_env_fn: Callable[..., EnvBase], *, num_envs: int = 1, **options: Any) -> EnvBase:
        """Make a :class:`~rlnb.envs.ParallelEnv`: several envs, each in a process of its own.

        Args:
            create_env_fn: makes an env; or a list of functions, one for each env.
            num_envs: how many envs.
            **options: those of :class:`~rlnb.envs.ParallelEnv`, such as ``create_env_kwargs``.

        Returns:
            The batch of batch size ``[num_envs, ...]``, whose processes start when they are needed. With
            ``serial_for_single=True`` and a single env, a :class:`~rlnb.envs.SerialEnv`.

        Example:
            >>> from rlnb.envs import EnvBase, GymEnv
            >>> with EnvBase.make_parallel(lambda: GymEnv("Pendulum-v1"), num_envs=2) as env:
            ...     env.rollout(3).batch_size
            torch.Size([2, 3])
        """
        from rlnb.envs.batched import ParallelEnv  # it is built on this class

        made: EnvBase = ParallelEnv(num_envs, create_env_fn, **options)
        return made

    def fake_tensordict(self) -> TensorDict:
        """Make a step of zeros with the keys, shapes and dtypes of a real one.

        Returns:
            A TensorDict of the env's batch size.
        """
        seen = Composite(shape=self.batch_size, device=self.device)
        for spec in (self.observation_spec, self.full_done_spec):
            seen.update(spec)
        root, after = seen.clone(), seen.clone()
        for spec in (self.full_state_spec, self.full_action_spec):
            root.update(spec)
        after.update(self.full_reward_spec)
        return root.zero().set("next", after.zero())


def _spec_like(value: torch.Tensor) -> TensorSpec:
    """The spec of a tensor of which nothing is known but its shape and dtype."""
    if value.dtype is torch.bool:
        return Categorical(2, shape=value.shape, dtype=torch.bool)
    return Unbounded(shape=value.shape, dtype=value.dtype)
