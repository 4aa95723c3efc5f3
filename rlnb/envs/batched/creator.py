"""Factory of envs that share buffers and parameters across processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from multiprocessing import reduction
from typing import Any

import torch

from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.batched import pickling
from rlnb.envs.metadata import EnvMetaData


class EnvCreator:
    """Factory of envs that share the buffers and parameters of their transforms.

    If one of the envs writes to a buffer in place, such as running statistics (``self.count += 1``), all others see
    it, in this process and in others. Assigning a new tensor (``self.count = self.count + 1``) ends the sharing.

    Args:
        create_env_fn: function that makes an env.
        create_env_kwargs: keyword arguments for ``create_env_fn``.
        share_memory: whether the envs share tensors. If False, each env has its own.
        **kwargs: further keyword arguments for ``create_env_fn``.

    Raises:
        TypeError: If ``create_env_fn`` cannot be called.

    Example:
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> make_env = EnvCreator(GymEnv, {"env_name": "Pendulum-v1"}, g=9.81)
        >>> make_env.meta_data
        EnvMetaData(GymEnv(env=Pendulum-v1, batch_size=torch.Size([]), device=None), batch_size=(), device=None)
        >>> SerialEnv(2, make_env).g
        [9.81, 9.81]
    """

    def __init__(
        self,
        create_env_fn: Callable[..., EnvBase],
        create_env_kwargs: Mapping[str, Any] | None = None,
        share_memory: bool = True,
        **kwargs: Any,
    ) -> None:
        if isinstance(create_env_fn, EnvBase) or not callable(create_env_fn):  # an env can be called, too
            raise TypeError(errors.not_an_env_function(create_env_fn))
        self.create_env_fn = create_env_fn
        self.create_env_kwargs = {**(create_env_kwargs or {}), **kwargs}
        self._shares = share_memory
        self._meta_data: EnvMetaData | None = None
        self._shared: dict[str, torch.Tensor] | None = None

    def __call__(self, **kwargs: Any) -> EnvBase:
        """Make an env. Keyword arguments override those of the creator."""
        self.init_()
        env = self.create_env_fn(**{**self.create_env_kwargs, **kwargs})
        for name, (tensors, key) in _state_tensors(env):
            shared = (self._shared or {}).get(name)
            if shared is not None and shared.shape == tensors[key].shape and shared.dtype == tensors[key].dtype:
                tensors[key] = shared
        return env

    def init_(self) -> EnvCreator:
        """Make an env once, to read its metadata and to share its tensors. Returns the creator.

        Other methods, and pickling for another process, call it by themselves. Call it before ``os.fork``.

        Raises:
            TypeError: If ``create_env_fn`` does not return an env.
        """
        if self._shared is not None:
            return self
        env = self.create_env_fn(**self.create_env_kwargs)
        if not isinstance(env, EnvBase):
            raise TypeError(errors.wrong_return("create_env_fn", env))
        self._meta_data = EnvMetaData.metadata_from_env(env)
        self._shared = {}
        if self._shares:
            self._shared = {name: tensors[key].share_memory_() for name, (tensors, key) in _state_tensors(env)}
        env.close()
        return self

    @property
    def meta_data(self) -> EnvMetaData:
        """Specs, batch size and device of the envs."""
        self.init_()
        assert self._meta_data is not None
        return self._meta_data

    def make_variant(self, **kwargs: Any) -> EnvCreator:
        """Make a creator of other envs that share tensors with these if names, shapes and dtypes agree.

        Args:
            **kwargs: keyword arguments that override those of this creator.

        Returns:
            The other creator.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> EnvCreator(GymEnv, env_name="Pendulum-v1").make_variant(env_name="CartPole-v1")()
            GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None)
        """
        self.init_()
        variant = EnvCreator(self.create_env_fn, {**self.create_env_kwargs, **kwargs}, self._shares).init_()
        assert variant._shared is not None
        for name, tensor in (self._shared or {}).items():
            own = variant._shared.get(name)
            if own is not None and own.shape == tensor.shape and own.dtype == tensor.dtype:
                variant._shared[name] = tensor
        return variant

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the tensors that the envs share, by name."""
        self.init_()
        return {name: tensor.detach() for name, tensor in (self._shared or {}).items()}

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Write to the tensors that the envs share. All envs see the new values.

        Args:
            state_dict: the result of :meth:`state_dict`.

        Raises:
            KeyError: If the names differ. Nothing is written then.
        """
        own = self.state_dict()
        if set(own) != set(state_dict):
            raise KeyError(
                f"The state dict must have the tensors that the envs of this EnvCreator share, {sorted(own)}, got "
                f"{sorted(map(str, state_dict))}."
            )
        for name, tensor in own.items():
            tensor.copy_(state_dict[name])

    def __getstate__(self) -> dict[str, Any]:
        self.init_()  # a pickle contains the shared tensors
        return vars(self)

    def __repr__(self) -> str:
        name = getattr(self.create_env_fn, "__qualname__", type(self.create_env_fn).__name__).rpartition(".")[2]
        return f"{type(self).__name__}({name}, {self.create_env_kwargs})"


def _state_tensors(env: EnvBase) -> Iterator[tuple[str, tuple[dict[str, Any], str]]]:
    """Find the tensors in the state of an env and of the envs inside it: the dictionaries and keys of them, by name."""
    for path, module in env.named_modules():
        for tensors in (module._parameters, module._buffers):
            for key, tensor in tensors.items():
                if tensor is not None and key not in module._non_persistent_buffers_set:
                    yield f"{path}.{key}" if path else key, (tensors, key)


def _from_another_process(pickled: bytes, tensors: list[torch.Tensor]) -> EnvCreator:
    creator = EnvCreator.__new__(EnvCreator)
    creator.__dict__.update(pickling.load(pickled, tensors))
    return creator


def _for_another_process(creator: EnvCreator) -> tuple[Any, tuple[bytes, list[torch.Tensor]]]:
    return _from_another_process, pickling.dump(creator.__getstate__())


# As an argument of multiprocessing.Process, too, a creator keeps its shared tensors, and may hold a lambda.
reduction.register(EnvCreator, _for_another_process)
