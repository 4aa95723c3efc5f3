"""The life of an environment: seeds, devices, transforms around it, its end."""

from __future__ import annotations

import contextlib
import operator
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.envs.auto_reset import AutoResetMeta
from rlnb.envs.guards import EnvGuards

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase
    from rlnb.envs.transforms import Transform, TransformedEnv


class EnvLife(EnvGuards, metaclass=AutoResetMeta):
    """What an environment does besides reset and step; the base of :class:`~rlnb.envs.EnvBase`.

    Args:
        device: where the data of the env lives; None for no statement.
        batch_size: how many envs are batched together.
    """

    def __init__(self, device: torch.device | None, batch_size: torch.Size) -> None:
        super().__init__(device, batch_size)
        self._generator_state: torch.Tensor | None = None

    # Seeds --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _set_seed(self, seed: int | None) -> None:
        """Seed whatever the env draws random numbers from."""

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the env, and the random actions that it draws. Torch's own generator is left alone.

        Args:
            seed: the seed, an integer from 0 on; None seeds with nothing in particular.
            static_seed: return ``seed`` itself, so that envs seeded in a chain all get the same one.

        Returns:
            The seed for the next env of a chain, computed from this one.

        Raises:
            ValueError: if ``seed`` is no such integer. Nothing is seeded then.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> env = GymEnv("CartPole-v1")
            >>> _ = env.set_seed(0); first = env.rollout(5)
            >>> _ = env.set_seed(0); bool((env.rollout(5) == first).all())
            True
        """
        if seed is None:
            self._generator_state = None
            self._set_seed(None)
            return None
        if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= seed < 2**64:
            raise ValueError(f"A seed must be an integer from 0 to 2**64 - 1 and is {seed!r}.")
        seed = operator.index(seed)
        self._set_seed(seed)
        self._generator_state = torch.Generator().manual_seed(seed).get_state()
        if static_seed:
            return seed
        return int(np.random.SeedSequence(seed).generate_state(1)[0])

    @contextlib.contextmanager
    def own_randomness(self) -> Iterator[None]:
        """Draw random numbers for the env: from its own generator once it is seeded, from torch's until then.

        Torch's generator is left as it was by what is drawn inside after :meth:`set_seed`.
        """
        if self._generator_state is None:
            yield
            return
        outer = torch.get_rng_state()
        torch.set_rng_state(self._generator_state)
        try:
            yield
        finally:
            self._generator_state = torch.get_rng_state()
            torch.set_rng_state(outer)

    # Around it ----------------------------------------------------------------------------------------------------

    def append_transform(self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> TransformedEnv:
        """Put a transform around the env.

        Args:
            transform: a transform, or a function that takes the data of a reset or step and returns it changed.

        Returns:
            The transformed env. This env is its base.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> GymEnv("CartPole-v1").append_transform(lambda data: data.set("twice", data["observation"] * 2))
            TransformedEnv(
                env=GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None),
                transform=_CallableTransform(keys=[]))
        """
        from rlnb.envs.transforms import TransformedEnv  # they are built on this class

        return TransformedEnv(cast("EnvBase", self), transform)

    def _assert_restarts(self) -> None:
        """Refuse ``auto_reset=True`` of an env that surely does not reset itself."""

    def _auto_resetting(self, replace: bool | None) -> EnvBase:
        """Return the env that this one, which resets itself, becomes with ``auto_reset=True``."""
        from rlnb.envs.transforms import AutoResetEnv, AutoResetTransform  # they are built on this class

        self._assert_restarts()
        return AutoResetEnv(cast("EnvBase", self), AutoResetTransform(replace=replace))

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

        Args:
            id: the name of the env, such as ``"Corridor-v0"``.
            entry_point: what makes the env in place of this class.
            transform: put around each env. May be given to ``make``, too.
            info_keys: entries of the observation that go into the info dictionary. May be given to ``make``, too.
            backend: the gym backend to register with; None for the one in use.
            to_numpy: give numpy arrays, not tensors. May be given to ``make``, too.
            **kwargs: those of Gymnasium's ``register`` (``max_episode_steps``, ``reward_threshold`` and the like); all
                others go to the env's constructor.

        Example:
            >>> import gymnasium
            >>> from rlnb.envs import PendulumEnv
            >>> PendulumEnv.register_gym("rlnb/Pendulum-v0", to_numpy=True)
            >>> sorted(gymnasium.make("rlnb/Pendulum-v0").reset(seed=0)[0])
            ['params', 'th', 'thdot']
        """
        from rlnb.envs.libs.gym.register import register_gym  # built on this class

        register_gym(
            cls if entry_point is None else entry_point,
            id,
            transform=transform,
            info_keys=info_keys,
            backend=backend,
            to_numpy=to_numpy,
            **kwargs,
        )

    @property
    def collector(self) -> Any:
        """The collector that steps this env, which :meth:`register_collector` told; None if there is none."""
        known = self.__dict__.get("_collector")
        return None if known is None else known()

    def register_collector(self, collector: Any) -> None:
        """Tell the env which collector steps it. Only a weak reference is kept.

        Args:
            collector: the collector.
        """
        self.__dict__["_collector"] = weakref.ref(collector)

    def configure_parallel(self, **kwargs: Any) -> EnvLife:
        """Change how the envs of a batch are run; only :class:`~rlnb.envs.SerialEnv` and its kin can.

        Args:
            **kwargs: those of the batch's constructor.

        Raises:
            NotImplementedError: For an env that is not such a batch.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not run other envs, so there is nothing to configure: {sorted(kwargs)}. "
            "Fix: ParallelEnv(n, make_env, ...)."
        )

    @classmethod
    def make_parallel(cls, create_env_fn: Any, *, num_envs: int = 1, **kwargs: Any) -> EnvBase:
        """Make a :class:`~rlnb.envs.ParallelEnv`.

        Args:
            create_env_fn: makes one env, or a list of such functions.
            num_envs: how many envs it runs.
            **kwargs: for :class:`~rlnb.envs.ParallelEnv`.

        Returns:
            The batch.
        """
        from rlnb.envs.batched import ParallelEnv  # built on this class

        return ParallelEnv(num_envs, create_env_fn, **kwargs)

    # Devices and the end ------------------------------------------------------------------------------------------

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Close the env. Stepping it raises an error until the next reset, which starts it again where it can.

        Args:
            raise_if_closed: raise an error if the env is closed already. If False (the default), nothing happens then.

        Raises:
            RuntimeError: If the env is closed already and ``raise_if_closed`` is True.
        """
        self._assert_not_closed_twice(raise_if_closed)
        self.is_closed = True

    def _assert_not_closed_twice(self, raise_if_closed: bool) -> None:
        if raise_if_closed and self.is_closed:
            raise RuntimeError(
                f"close(raise_if_closed=True) was called on a {type(self).__name__} that is closed already. "
                "Fix: env.close(), which may be called twice."
            )

    def __setattr__(self, name: str, value: Any) -> None:
        # torch.nn.Module asks of each value whether it is a parameter, a module or a buffer; the state of an env, which
        # changes with every step, is known to be none of these.
        if type(value) is torch.Tensor and name in self.__dict__:
            self.__dict__[name] = value
        elif name == "batch_locked" and self.is_spec_locked and "_modules" in self.__dict__:
            raise AttributeError(
                f"batch_locked belongs to the class {type(self).__name__}, whose _step takes any batch size or does "
                f"not. Only __init__ can set it. Fix: class MyEnv({type(self).__name__}): batch_locked = {value!r}."
            )
        else:
            super().__setattr__(name, value)

    def __del__(self) -> None:
        # At interpreter exit anything may be gone already, and nobody is left to tell.
        with contextlib.suppress(Exception):
            if not self.is_closed:
                self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_size={self.batch_size}, device={self.device})"

    def to(self, *args: Any, **kwargs: Any) -> EnvLife:
        """Move the env to a device: from now on its data lives there.

        Args:
            *args: as for ``torch.nn.Module.to``.
            **kwargs: as for ``torch.nn.Module.to``.

        Returns:
            The env.
        """
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is not None:
            self._device = device
            self._specs = {name: spec.to(device).lock_() for name, spec in self._specs.items()}
            self.empty_cache()
        super().to(*args, **kwargs)
        return self

    def cpu(self) -> EnvLife:
        """Move the env to the CPU; see :meth:`to`."""
        return self.to("cpu")

    def cuda(self, device: torch.device | str | int | None = None) -> EnvLife:
        """Move the env to a CUDA device; see :meth:`to`.

        Args:
            device: which one; None for the current one.
        """
        return self.to("cuda" if device is None else torch.device("cuda", device) if type(device) is int else device)


def close(env: Any, raise_if_closed: bool) -> None:
    """Close an env inside another, whose own ``close`` may be a user's that takes no arguments.

    Args:
        env: the env.
        raise_if_closed: passed on if it is True.
    """
    if raise_if_closed:
        env.close(raise_if_closed=True)
    else:
        env.close()
