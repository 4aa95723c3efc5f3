"""Where a transform stands: its container, the env around it, the env below it, and copies that are free of both."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

import torch

from rlnb.envs.transforms import faults

if TYPE_CHECKING:
    from rlnb.envs.transforms.transform import Transform
    from rlnb.envs.transforms.transformed_env import TransformedEnv

#: What belongs to the place of a transform and not to the transform.
_OF_PLACE = ("_container", "_parent")


class Placed(torch.nn.Module):
    """The part of :class:`Transform` that knows in which env it is.

    A transform is held by one container, a :class:`TransformedEnv` or a :class:`Compose`, and refers to it weakly: when
    the container is gone, the transform is free again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._container: weakref.ref[Any] | None = None
        self.__dict__["_parent"] = None

    @property
    def container(self) -> Any:
        """The :class:`TransformedEnv` or :class:`Compose` that holds the transform, or None."""
        return None if self._container is None else self._container()

    def set_container(self, container: Any) -> None:
        """Put the transform into an env or a Compose.

        Args:
            container: what holds it from now on.

        Raises:
            RuntimeError: if something else holds it already.
        """
        self.assert_free()
        self._container = weakref.ref(container)
        self.empty_cache()

    def assert_free(self) -> None:
        """Refuse to be put anywhere while something holds the transform.

        Raises:
            RuntimeError: if something does.
        """
        holder = self.container
        if holder is not None:
            raise RuntimeError(faults.held_already(self, holder))

    def reset_parent(self) -> None:
        """Forget the container, so that another one may hold the transform."""
        self._container = None
        self.empty_cache()

    def empty_cache(self) -> None:
        """Forget what was derived from the place of the transform."""
        self.__dict__["_parent"] = None

    @property
    def parent(self) -> TransformedEnv | None:
        """The env with all transforms before this one, or None if the transform is in no env.

        Its transforms are clones of those of the env; it shares the base env with it.

        Example:
            >>> from rlnb.envs import GymEnv, RewardSum, StepCounter, TransformedEnv
            >>> env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter()).append_transform(RewardSum())
            >>> env.transform[1].parent.transform
            Compose(
                    StepCounter(keys=[]))
        """
        if self.__dict__["_parent"] is None:
            found = self._below()
            if found is not None:
                env, before = found
                # Not by setattr: the env below is no submodule of the transform.
                self.__dict__["_parent"] = env._before(before)
        return self.__dict__["_parent"]

    def _below(self) -> tuple[Any, list[Transform]] | None:
        """The env around, and clones of the transforms between its base env and this one; None without an env."""
        holder = self.container
        if holder is None or not isinstance(holder, Placed):
            return None if holder is None else (holder, [])
        found = holder._below()
        if found is None:
            return None
        env, before = found
        return env, [*before, *holder._clones_before(self)]

    def _clones_before(self, member: Placed) -> list[Transform]:
        """Clone the members of a container that come before one of them."""
        raise TypeError(f"{type(self).__name__} holds no transforms.")

    def _env(self) -> TransformedEnv | None:
        """The env around the transform, or None."""
        holder = self.container
        return holder._env() if isinstance(holder, Placed) else holder

    def clone(self) -> Self:
        """Copy the transform without its place.

        Returns:
            A transform with the same settings and the very same buffers and parameters, in no env.

        Example:
            >>> from rlnb.envs import GymEnv, StepCounter, TransformedEnv
            >>> env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
            >>> env.transform.clone().parent is None
            True
        """
        new = type(self).__new__(type(self))
        # Lists and dictionaries are copied, so that a change of keys or a buffer that is replaced stays with one of
        # the two; tensors are shared.
        new.__dict__.update({k: v.copy() if isinstance(v, (dict, list, set)) else v for k, v in self.__dict__.items()})
        new.__dict__.update(dict.fromkeys(_OF_PLACE))
        new._forget()
        return new

    def _forget(self) -> None:
        """Forget what was learned from the data of an env: called on a clone."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(_OF_PLACE)}


__all__ = ["Placed"]
