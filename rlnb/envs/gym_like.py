"""GymLikeEnv: the base of environments around a backend that resets and steps as Gymnasium's do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data import Categorical, Composite
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey
from rlnb.envs import errors
from rlnb.envs.gym_reading import GymReading, repeat_step
from rlnb.envs.info import BaseInfoDictReader, default_info_dict_reader


class GymLikeEnv(GymReading):
    """Wraps a backend whose ``reset()`` gives an observation and whose ``step(action)`` gives a tuple.

    The tuple is (observation, reward, *end signals, info), with one end signal, "done", or two, "terminated" and
    "truncated". A dictionary of observations becomes entries of that name, anything else the entry "observation". Of
    the info dictionary nothing is read but what :meth:`set_info_dict_reader` asks for.

    A subclass sets ``observation_spec`` and ``action_spec`` in its ``__init__`` or in ``_make_specs(env)``, and writes
    ``_set_seed``. Where its backend speaks
    differently it overrides the method that reads that part: :meth:`read_action`, :meth:`read_obs`,
    :meth:`read_reward`, :meth:`read_done`, :meth:`read_info`, or ``_output_transform`` and
    ``_reset_output_transform``, which take apart what ``step`` and ``reset`` return.

    Args:
        env: the backend.
        device: where the data goes; None (the default) for no statement.
        batch_size: of the backend's data. Default: ``torch.Size([])``.
        frame_skip: how many times each action is repeated; the rewards are added up, and an end stops it.
        run_type_checks: see :class:`~rlnb.envs.EnvBase`.
        allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.
        **kwargs: for ``_build_env``, of subclasses that make the backend themselves.

    Attributes:
        frame_skip: how many times each action is repeated.
        info_dict_reader: the readers that :meth:`set_info_dict_reader` added.

    Raises:
        ValueError: if ``frame_skip`` is not a positive integer.

    Example:
        >>> from rlnb.data import Unbounded
        >>> class Doubling:
        ...     def reset(self):
        ...         self.x = 1
        ...         return {"x": [1.0]}
        ...     def step(self, action):
        ...         self.x *= 2
        ...         return {"x": [float(self.x)]}, 1.0, self.x >= 8, {}
        >>> class DoublingEnv(GymLikeEnv):
        ...     def __init__(self):
        ...         super().__init__(Doubling())
        ...         self.observation_spec = Composite(x=Unbounded(shape=(1,)))
        ...         self.action_spec = Categorical(2)
        ...     def _set_seed(self, seed):
        ...         pass
        >>> DoublingEnv().rollout(10)["next", "x"].flatten()
        tensor([2., 4., 8.])
    """

    def __init__(
        self,
        env: Any = None,
        *,
        device: torch.device | str | int | None = None,
        batch_size: Sequence[int] | None = None,
        frame_skip: int = 1,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        if isinstance(frame_skip, bool) or not isinstance(frame_skip, int) or frame_skip < 1:
            raise ValueError(f"frame_skip must be a positive integer and is {frame_skip!r}.")
        super().__init__(
            device, batch_size, run_type_checks=run_type_checks, allow_done_after_reset=allow_done_after_reset
        )
        if env is not None:
            kwargs["env"] = env
        self._check_kwargs(kwargs)
        env = self._build_env(**kwargs)
        if env is None:
            raise TypeError(f"{type(self).__name__} wraps a backend and got none. Fix: {type(self).__name__}(env).")
        self._env = env
        self.frame_skip = frame_skip
        self.info_dict_reader: list[BaseInfoDictReader] = []
        self._info_at_reset = False
        self._running = False
        self._advance: Callable[[Any], Any] = env.step if frame_skip == 1 else self._repeat
        end = Categorical(2, shape=(*self.batch_size, 1), dtype=torch.bool, device=self.device)
        self.done_spec = Composite({key: end.clone() for key in END_KEYS}, shape=self.batch_size, device=self.device)
        self._make_specs(env)
        self._init_env()

    # For subclasses, which may also do all of this in their __init__ ----------------------------------------------

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Check the keyword arguments that :meth:`_build_env` is called with."""

    def _build_env(self, env: Any = None) -> Any:
        """Return the backend; a subclass may make it of its own keyword arguments."""
        return env

    def _make_specs(self, env: Any) -> None:
        """Set the specs of a backend."""

    def _init_env(self) -> None:
        """Do what is to be done once, when the backend and the specs are there."""

    # Reset and step -----------------------------------------------------------------------------------------------

    def _restart(self, tensordict: TensorDictBase | None, **kwargs: Any) -> Any:
        """Reset the backend, and return what its reset returns."""
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is not None and not bool(mask.all()):
            raise RuntimeError(
                f"{type(self).__name__} cannot reset some envs of its batch and leave the others: its backend resets "
                "all at once. Fix: override _restart(tensordict, **kwargs), or stop at the first end, "
                "env.rollout(n, break_when_any_done=True)."
            )
        return self._env.reset(**kwargs)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        observation, info = self._reset_output_transform(self._restart(tensordict, **kwargs))
        self._running = True
        entries = self.read_obs(observation)
        entries.update(zip(END_KEYS, torch.zeros((3, *self.batch_size, 1), dtype=torch.bool).unbind(0), strict=True))
        data = self._assemble(entries, info)
        if self._info_at_reset:
            for key in self.observation_keys:
                if data.get(key, None) is None:
                    data.set(key, self.observation_spec[key].zero())
        return data

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self._running:
            raise RuntimeError(errors.not_reset(self))
        outputs = self._advance(self.read_action(self._action_of(tensordict)))
        observation, reward, terminated, truncated, done, info = self._output_transform(outputs)
        entries = self.read_obs(observation)
        entries[self.reward_key] = self.read_reward(reward)
        entries[TERMINATED], entries[TRUNCATED], entries[DONE], _ = self.read_done(terminated, truncated, done)
        return self._assemble(entries, info)

    def _action_of(self, tensordict: TensorDictBase) -> Any:
        keys = self.action_keys
        return tensordict.get(keys[0]) if len(keys) == 1 else tensordict

    def _assemble(self, entries: dict[NestedKey, Any], info: Mapping[str, Any]) -> TensorDictBase:
        data = TensorDict(entries, self.batch_size)
        if self.info_dict_reader:
            self.read_info(info, data)
        return data if self.device is None else data.to(self.device)

    def _repeat(self, action: Any) -> tuple[Any, ...]:
        """Step the backend ``frame_skip`` times."""
        return repeat_step(self._env.step, action, self.frame_skip, self._is_over)

    def _is_over(self, outputs: tuple[Any, ...]) -> bool:
        return self.read_done(*self._output_transform(outputs)[2:5])[3]

    # Infos --------------------------------------------------------------------------------------------------------

    def read_info(self, info: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Let the readers write what they read of an info dictionary.

        Args:
            info: as the backend gave it.
            tensordict: the data of the reset or step; written to.

        Returns:
            The same TensorDict.
        """
        for reader in self.info_dict_reader:
            reader(info, tensordict)
        return tensordict

    def set_info_dict_reader(
        self, info_dict_reader: BaseInfoDictReader | None = None, ignore_private: bool = True
    ) -> GymLikeEnv:
        """Read entries of the info dictionary into the data, under "next" (and at the root, where a reset gives them).

        Args:
            info_dict_reader: what reads them: a :class:`~rlnb.envs.libs.gym.BaseInfoDictReader`, or a function of
                the info dictionary and the TensorDict, which then declares no entries in ``observation_spec``. None
                for :class:`~rlnb.envs.default_info_dict_reader`, which reads all numbers. Where a reader has no
                spec, the env is reset and stepped once to find out.
            ignore_private: for the default reader: leave out names that start with an underscore.

        Returns:
            The env.

        Raises:
            ValueError: if there is nothing to read. Nothing is changed then.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> env = GymEnv("Taxi-v4", categorical_action_encoding=True).set_info_dict_reader()
            >>> env.rollout(3)["next", "action_mask"].shape
            torch.Size([3, 6])
        """
        reader = info_dict_reader
        if reader is None:
            reader = default_info_dict_reader(ignore_private=ignore_private)
        if not hasattr(reader, "info_spec"):
            self.info_dict_reader.append(reader)
            self.empty_cache()
            return self
        if reader.info_spec is None:
            reader(self._example_info(), TensorDict({}, self.batch_size))
        found = reader.info_spec
        if found is None or found.is_empty():
            raise ValueError(
                f"The info dictionary of {self!r} has no numbers to read. "
                "Fix: leave the reader out, or name keys and a spec: default_info_dict_reader(keys=[...], spec=...)."
            )
        if found.shape != self.batch_size:
            found = found.expand(*self.batch_size, *found.shape)
        spec = self.observation_spec.clone()
        spec.update(found)
        self.observation_spec = spec
        self.info_dict_reader.append(reader)
        self.empty_cache()
        return self

    def auto_register_info_dict(
        self, ignore_private: bool = True, *, info_dict_reader: BaseInfoDictReader | None = None
    ) -> GymLikeEnv:
        """Read the info dictionary, with zeros where a reset gives none, so that every step has the same entries.

        Args:
            ignore_private: as for :meth:`set_info_dict_reader`.
            info_dict_reader: as for :meth:`set_info_dict_reader`.

        Returns:
            The env.
        """
        self.set_info_dict_reader(info_dict_reader, ignore_private)
        self._info_at_reset = True
        return self

    def _example_info(self) -> Mapping[str, Any]:
        """Reset and step the backend once, with a random action that costs torch's generator nothing."""
        state = torch.get_rng_state()
        try:
            action = self.full_action_spec.rand()
        finally:
            torch.set_rng_state(state)
        self._restart(None)
        self._running = False
        return self._output_transform(self._advance(self.read_action(self._action_of(action))))[-1]

    # Life ---------------------------------------------------------------------------------------------------------

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Close the backend, too.

        Args:
            raise_if_closed: raise RuntimeError if the env is closed already.
        """
        self._assert_not_closed_twice(raise_if_closed)
        if not self.is_closed:
            super().close()
            if hasattr(self._env, "close"):
                self._env.close()

    def _backend_attribute(self, name: str) -> Any:
        return getattr(self._env, name)

    def _backend_name(self) -> str:
        return type(self._env).__name__

    def __getattr__(self, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return super().__getattr__(name)
        # A constructor that failed leaves no backend to ask.
        if name.startswith("_") or "_env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        try:
            return self._backend_attribute(name)
        except AttributeError as error:
            raise AttributeError(
                f"Neither {type(self).__name__} nor the {self._backend_name()} in it has an attribute {name!r}."
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._backend_name()}, batch_size={self.batch_size}, device={self.device})"


__all__ = ["BaseInfoDictReader", "GymLikeEnv", "default_info_dict_reader"]
