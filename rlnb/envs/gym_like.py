"""Base class of environments that wrap a backend with the ``reset`` and ``step`` of Gymnasium."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase

from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.info import BaseInfoDictReader, default_info_dict_reader

Outputs = tuple[Any, Any, Any, Any, Any, Mapping[str, Any]]
"""Of a step: observation, reward, terminated, truncated, done and info. End signals that are not given are None."""


class GymLikeEnv(EnvBase):
    """Wraps a backend whose ``reset()`` returns an observation and whose ``step(action)`` returns a tuple.

    The tuple is (observation, reward, *end signals, info), with one end signal, "done", or two, "terminated" and
    "truncated". A dictionary of observations becomes entries of these names, anything else the entry "observation".
    The info dictionary is ignored unless :meth:`set_info_dict_reader` is called.

    A subclass sets ``observation_spec`` and ``action_spec`` in its ``__init__`` or in ``_make_specs(env)``, and
    implements ``_set_seed``. If its backend differs, it overrides the method that reads that part:
    :meth:`read_action`, :meth:`read_obs`, :meth:`read_reward`, :meth:`read_done`, :meth:`read_info`, or
    ``_output_transform`` and ``_reset_output_transform``, which split what ``step`` and ``reset`` return.

    Args:
        env: the backend.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        batch_size: of the backend's data. Default: ``torch.Size([])``.
        frame_skip: how many times each action is repeated. The rewards are summed, and the end of an episode stops
            the repetition.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.
        **kwargs: passed to ``_build_env``, for subclasses that make the backend themselves.

    Attributes:
        info_dict_reader: the readers that :meth:`set_info_dict_reader` added.

    Raises:
        ValueError: If ``frame_skip`` is not a positive integer.

    Example:
        >>> from rlnb.data import Categorical, Composite, Unbounded
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
        # A backend may be stepped otherwise, by a subclass that overrides _step.
        self._advance: Any = getattr(env, "step", None)
        self._repeats = frame_skip
        self.add_truncated_keys()
        self._make_specs(env)
        self._init_env()

    # Construction: hooks for subclasses, which may also do all of this in their __init__ --------------------------

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Check the keyword arguments for ``_build_env``."""

    def _build_env(self, env: Any = None) -> Any:
        """Return the backend; a subclass may make it from other keyword arguments."""
        return env

    def _make_specs(self, env: Any) -> None:
        """Set the specs from the backend."""

    def _init_env(self) -> None:
        """Finish the construction, once the backend and the specs exist."""

    # Reset and step -----------------------------------------------------------------------------------------------

    def _restart(self, tensordict: TensorDictBase | None, **kwargs: Any) -> Any:
        """Reset the backend and return its output."""
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
        outputs = self._outputs(self.read_action(self._action_of(tensordict)))
        observation, reward, terminated, truncated, done, info = outputs
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

    def _outputs(self, action: Any) -> Any:
        """Step the backend, ``frame_skip`` times or until the episode ends, and take apart what it returned."""
        if self._repeats == 1:
            return self._output_transform(self._advance(action))
        return repeat_step(
            lambda action: self._output_transform(self._advance(action)), action, self._repeats, self._is_over
        )

    def _is_over(self, outputs: tuple[Any, ...]) -> bool:
        return self.read_done(*outputs[2:5])[3]

    # Reading and writing the backend's data -----------------------------------------------------------------------

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> Outputs:
        """Split what the backend's step returned into observation, reward, end signals and info."""
        outputs = step_outputs_tuple
        if not isinstance(outputs, tuple) or len(outputs) not in (4, 5):
            got = f"a {type(outputs).__name__}" if not isinstance(outputs, tuple) else f"a tuple of {len(outputs)}"
            raise TypeError(
                f"The step of a gym-like backend returns (observation, reward, done, info) or (observation, reward, "
                f"terminated, truncated, info), and that of {self!r} returned {got}. "
                "Fix: override _output_transform, which takes it apart."
            )
        observation, reward, *ends, info = outputs
        if len(ends) == 2:
            return observation, reward, *ends, None, info
        # Backends with a single end signal report a time limit here.
        return observation, reward, None, info.get("TimeLimit.truncated"), ends[0], info

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Mapping[str, Any]]:
        """Split what the backend's reset returned, an observation or a pair of that and an info dictionary."""
        outputs = reset_outputs_tuple
        if isinstance(outputs, tuple) and len(outputs) == 2 and isinstance(outputs[1], Mapping):
            return outputs
        return outputs, {}

    def read_action(self, action: Any) -> Any:
        """Convert an action into what the backend's step takes: a number or an array, or a dictionary of them.

        Args:
            action: a tensor if the env has one action, else the TensorDict with all of them.
        """
        spec = self.full_action_spec
        if isinstance(action, TensorDictBase):
            return spec.to_numpy(action.select(*self.action_keys))
        return spec[self.action_key].to_numpy(action.detach().cpu())

    def read_obs(self, observations: Any) -> dict[NestedKey, Any]:
        """Convert the backend's observations into entries.

        Args:
            observations: an array or a number, which becomes the entry "observation"; or a dictionary, which may be
                nested.

        Returns:
            The entries, as new tensors, or as wrapped data if the spec is a :class:`~rlnb.data.NonTensor`.
        """
        entries: dict[NestedKey, Any] = {}

        def walk(value: Any, path: tuple[str, ...]) -> None:
            if isinstance(value, Mapping):
                for name, member in value.items():
                    walk(member, (*path, str(name)))
                return
            key: NestedKey = path if len(path) > 1 else path[0] if path else "observation"
            spec = self.observation_spec.get(key, None)
            if isinstance(spec, NonTensor):
                entries[key] = wrapped(value, spec.shape)
                return
            # A copy: many backends write their next observation over the last.
            tensor = value.clone() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
            entries[key] = tensor if spec is None else spec.encode(tensor, check=False)

        walk(observations, ())
        return entries

    def read_reward(self, reward: Any) -> torch.Tensor:
        """Convert the backend's reward into a tensor of the shape and dtype of ``reward_spec``.

        Args:
            reward: a number, or an array with one number for each env of the batch.

        Raises:
            RuntimeError: If the reward is anything else.
        """
        spec = self.reward_spec
        if type(reward) is float and spec.shape == (1,):
            return torch.full((1,), reward, dtype=spec.dtype)
        return torch.tensor(reward_array(reward, spec.shape.numel()), dtype=spec.dtype).reshape(spec.shape)

    def read_done(
        self, terminated: Any = None, truncated: Any = None, done: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]:
        """Complete the backend's end signals.

        Args:
            terminated: whether the episode reached its end. ``None`` if the backend does not say.
            truncated: whether it was cut short. ``None`` if the backend does not say.
            done: whether it is over, for either reason. If only this is given, the episode is terminated unless
                ``truncated`` explains it. Default: the union of the other two.

        Returns:
            Terminated, truncated and done, of the shape of ``done_spec``, and whether any env is done.

        Raises:
            ValueError: If all three are None.
        """
        if terminated is None and truncated is None and done is None:
            raise ValueError("The backend's step gave no end signal: read_done needs terminated, truncated or done.")
        if done is None and type(terminated) is bool and type(truncated) is bool and not self.batch_size:
            over = terminated or truncated
            ends = [torch.from_numpy(np.array([flag])) for flag in (terminated, truncated, over)]
            return ends[0], ends[1], ends[2], over
        flags = np.zeros((3, *self.batch_size, 1), dtype=bool)
        for i, flag in enumerate((terminated, truncated, done)):
            if flag is not None:
                flags[i] = np.reshape(np.asarray(flag, dtype=bool), flags.shape[1:])
        if terminated is None and done is not None:
            flags[0] = flags[2] & ~flags[1]
        if done is None:
            flags[2] = flags[0] | flags[1]
        ends = list(torch.from_numpy(flags).unbind(0))
        return ends[0], ends[1], ends[2], bool(flags[2].any())

    # Infos --------------------------------------------------------------------------------------------------------

    def read_info(self, info: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Let the info readers write entries of an info dictionary into the data.

        Args:
            info: as the backend returned it.
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
        """Add entries of the info dictionary to the data of steps, and of resets that return them. Returns the env.

        Args:
            info_dict_reader: a :class:`~rlnb.envs.libs.gym.BaseInfoDictReader`, or a function of the info dictionary
                and the TensorDict, which then declares no entries in ``observation_spec``. ``None``: a
                :class:`~rlnb.envs.default_info_dict_reader`, which reads all numbers. If a reader has no spec, the
                env is reset and stepped once to infer it.
            ignore_private: for the default reader: leave out names that start with an underscore.

        Raises:
            ValueError: If there is nothing to read. Nothing is changed then.

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
        """Read the info dictionary, with zeros where a reset returns none, so that every step has the same entries.

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
        """Reset and step the backend once with a random action; torch's generator is restored."""
        state = torch.get_rng_state()
        try:
            action = self.full_action_spec.rand()
        finally:
            torch.set_rng_state(state)
        self._restart(None)
        self._running = False
        return self._outputs(self.read_action(self._action_of(action)))[-1]

    # The backend --------------------------------------------------------------------------------------------------

    def _release(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()

    def _backend_attribute(self, name: str) -> Any:
        return getattr(self._env, name)

    def _backend_name(self) -> str:
        return type(self._env).__name__

    def __getattr__(self, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return super().__getattr__(name)
        # If the constructor failed there is no backend.
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


def wrapped(value: Any, batch_size: torch.Size) -> Any:
    """Wrap a copy of data that is not a tensor, such as text; for a batch, of a sequence with one item for each env.

    Example:
        >>> wrapped("go left", torch.Size([])).data, wrapped(("left", "right"), torch.Size([2])).tolist()
        ('go left', ['left', 'right'])
    """
    if not batch_size:
        return NonTensorData(copy.deepcopy(value))
    return NonTensorStack(*[wrapped(row, batch_size[1:]) for row in value], stack_dim=0)


def repeat_step(
    step: Callable[[Any], tuple[Any, ...]], action: Any, times: int, is_over: Callable[[tuple[Any, ...]], bool]
) -> tuple[Any, ...]:
    """Repeat a step until an output ends the episode. Return the last output, with the sum of the rewards.

    Example:
        >>> repeat_step(lambda action: (action, 1.0, False, {}), 5, 3, lambda outputs: outputs[2])
        (5, 3.0, False, {})
    """
    outputs = step(action)
    total = outputs[1]
    for _ in range(times - 1):
        if is_over(outputs):
            break
        outputs = step(action)
        total = total + outputs[1]
    return (outputs[0], total, *outputs[2:])


def reward_array(reward: Any, count: int) -> np.ndarray:
    """Convert the reward of a backend into an array of ``count`` numbers, of any shape.

    Example:
        >>> reward_array([[0.5]], 1)
        array([[0.5]])
    """
    array = np.asarray(reward.detach().cpu() if isinstance(reward, torch.Tensor) else reward)
    if array.size != count or array.dtype.kind not in "biuf":
        what, kind = ("one number", "a float") if count == 1 else (f"{count} numbers", f"an array of {count} numbers")
        raise RuntimeError(
            f"The reward must be {what} and is {reward!r}. Fix: let the env's step return (observation, reward, "
            f"terminated, truncated, info) with {kind} as reward."
        )
    return array


__all__ = ["BaseInfoDictReader", "GymLikeEnv", "Outputs", "default_info_dict_reader"]
