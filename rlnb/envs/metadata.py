"""Metadata of environments: specs, batch size and an example step, to allocate memory in another process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.normalize import as_device
from rlnb.envs.base import EnvBase


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EnvMetaData:
    """Specs, batch size and an example step of an env, without the env, for another process.

    Args:
        tensordict: one step of zeros, of batch size ``[*batch_size]``. It shares no memory with the env, so it can be
            moved to shared memory or memory-mapped.
        specs: "input_spec" and "output_spec" in one composite; locked.
        batch_size: of the env.
        env_str: how the env describes itself.
        device: device of its data. ``None``: wherever the env creates it.
        batch_locked: False for a stateless env, which takes any batch size.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> data = EnvMetaData.metadata_from_env(GymEnv("CartPole-v1")).expand(3)
        >>> data
        EnvMetaData(GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None), batch_size=(3,), device=None)
        >>> data.tensordict["next", "observation"].shape
        torch.Size([3, 4])
    """

    tensordict: TensorDictBase
    specs: Composite
    batch_size: torch.Size
    env_str: str
    device: torch.device | None
    batch_locked: bool

    @classmethod
    def metadata_from_env(cls, env: EnvBase) -> EnvMetaData:
        """Read the metadata of an env without resetting or stepping it. The metadata shares no memory with the env.

        Raises:
            TypeError: If ``env`` is not an env.
        """
        if not isinstance(env, EnvBase):
            raise TypeError(
                f"metadata_from_env reads an env of rlnb and got a {type(env).__name__}. Fix: call the function that "
                "makes the env first, EnvMetaData.metadata_from_env(make_env())."
            )
        return cls(
            tensordict=env.fake_tensordict().clone(),
            specs=env.specs.clone().lock_(),
            batch_size=env.batch_size,
            env_str=repr(env),
            device=env.device,
            batch_locked=env.batch_locked,
        )

    def expand(self, *size: int) -> EnvMetaData:
        """Add leading dimensions: the metadata of several such envs.

        Args:
            *size: their sizes.

        Returns:
            Metadata of batch size ``[*size, *batch_size]``, with a new TensorDict.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> EnvMetaData.metadata_from_env(GymEnv("CartPole-v1")).expand(2, 3).specs.shape
            torch.Size([2, 3])
        """
        batch_size = torch.Size((*size, *self.batch_size))
        return replace(
            self,
            tensordict=self.tensordict.expand(batch_size).clone(),
            specs=self.specs.expand(*batch_size).clone().lock_(),
            batch_size=batch_size,
        )

    def clone(self) -> EnvMetaData:
        """Copy the metadata, including the tensors."""
        return replace(self, tensordict=self.tensordict.clone(), specs=self.specs.clone().lock_())

    def to(self, device: torch.device | str | int) -> EnvMetaData:
        """Return the metadata of the same env on a device.

        Args:
            device: the device.

        Returns:
            Metadata whose specs and TensorDict are on that device.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> EnvMetaData.metadata_from_env(GymEnv("CartPole-v1")).to("cpu").device
            device(type='cpu')
        """
        device = as_device(device)
        return replace(self, tensordict=self.tensordict.to(device), specs=self.specs.to(device).lock_(), device=device)

    def __repr__(self) -> str:
        device = None if self.device is None else str(self.device)
        return f"{type(self).__name__}({self.env_str}, batch_size={tuple(self.batch_size)}, device={device})"
