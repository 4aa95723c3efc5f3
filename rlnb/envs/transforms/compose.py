"""``Compose``, a chain of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.envs.transforms.transform import Transform, as_transform, checked_result


class Compose(Transform):
    """A chain of transforms: applied in order forward, and in reverse order by the inverse.

    Args:
        *transforms: transforms, or functions that take and return a TensorDict.

    Attributes:
        transforms: the transforms, as a ``torch.nn.ModuleList``.

    Raises:
        TypeError: If one is neither a transform nor a function.
        RuntimeError: If one is already in another env or Compose.

    Example:
        >>> from rlnb.envs import InitTracker, RewardSum, StepCounter
        >>> chain = Compose(StepCounter(), RewardSum())
        >>> chain.append(InitTracker())
        >>> len(chain), chain[-1]
        (3, InitTracker(keys=[]))
    """

    #: Whether any transform does; see :class:`Transform`.
    _changes_resets = _fills_resets = _changes_input = False

    def __init__(self, *transforms: Transform | Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self._members: list[Transform] = []
        try:
            for transform in map(as_transform, transforms):
                transform.set_container(self)
                self._members.append(transform)
        except Exception:
            for transform in self._members:
                transform.reset_parent()
            raise
        self._update_members()

    def _update_members(self) -> None:
        """Update the attributes that follow from the members."""
        self.transforms = torch.nn.ModuleList(self._members)
        self._update_flags()

    def _update_flags(self) -> None:
        """Cache the properties of the members that each step and reset looks up."""
        self._inverses = [member for member in reversed(self._members) if member.invertible]
        self._changes_resets = any(member._changes_resets for member in self._members)
        self._fills_resets = any(member._fills_resets for member in self._members)
        self._changes_input = any(member._changes_input for member in self._members)

    # A list of transforms -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self._members)

    @overload
    def __getitem__(self, index: int) -> Transform: ...

    @overload
    def __getitem__(self, index: slice) -> Compose: ...

    def __getitem__(self, index: int | slice) -> Transform:
        """Return one of the transforms itself, or for a slice a Compose of clones, which is in no env."""
        if isinstance(index, slice):
            return Compose(*(member.clone() for member in self._members[index]))
        try:
            return self._members[index]
        except IndexError:
            name, length = type(self).__name__, len(self)
            if not length:
                raise IndexError(f"This {name} is empty and has no transform [{index}].") from None
            count = "1 transform" if length == 1 else f"{length} transforms"
            raise IndexError(
                f"This {name} has {count}, with indices from {-length} to {length - 1}, and no [{index}]."
            ) from None

    def append(self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> None:
        """Add a transform at the end.

        Args:
            transform: as for the constructor. If the env cannot take it, the chain is unchanged.
        """
        self.insert(len(self), transform)

    def insert(self, index: int, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> None:
        """Insert a transform before another one.

        Args:
            index: index of the other one, as for ``list.insert``.
            transform: as for the constructor. If the env cannot take it, the chain is unchanged.
        """
        added = as_transform(transform)
        added.set_container(self)
        before = list(self._members)
        self._members.insert(index, added)
        self._try(before, [added])

    def pop(self, index: int = -1) -> Transform:
        """Remove a transform and return it.

        Args:
            index: index of the transform.

        Returns:
            The transform, which is no longer in an env.
        """
        before = list(self._members)
        taken = self._members.pop(index)
        self._try(before, [])
        taken.reset_parent()
        return taken

    def _try(self, before: list[Transform], added: list[Transform]) -> None:
        """Update the env after a change; if the env refuses it, restore the members from before."""
        try:
            self._refresh()
        except Exception:
            self._members = before
            for transform in added:
                transform.reset_parent()
            self._refresh()
            raise

    def _refresh(self) -> None:
        self._update_members()
        self.empty_cache()
        holder = self.container
        if holder is not None:
            holder._refresh()

    # Container and copies -----------------------------------------------------------------------------------------

    def empty_cache(self) -> None:
        """Discard the cached :attr:`parent` of the chain and of its transforms."""
        super().empty_cache()
        for member in self.__dict__.get("_members", ()):
            member.empty_cache()

    def _clones_before(self, member: Transform) -> list[Transform]:
        """Clone the members that come before one of them."""
        at = next(i for i, other in enumerate(self._members) if other is member)
        return [other.clone() for other in self._members[:at]]

    def clone(self) -> Compose:
        """Copy the chain and its transforms, without the container; see :meth:`Transform.clone`."""
        return self[:]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for member in self._members:
            member.set_container(self)

    # Data ---------------------------------------------------------------------------------------------------------

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for member in self._members:
            next_tensordict = checked_result(member, member._call(next_tensordict))
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._changes_input:
            for member, own in zip(self._members, self._inputs(tensordict, "_step_input"), strict=True):
                next_tensordict = checked_result(member, member._step(own, next_tensordict))
            return next_tensordict
        for member in self._members:
            next_tensordict = member._step(tensordict, next_tensordict)
            if next_tensordict is None:
                checked_result(member, None)
        return next_tensordict

    def _step_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        for member in reversed(self._members):
            tensordict = member._step_input(tensordict)
        return tensordict

    def _reset_base_env(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        return self._members[0]._reset_base_env(given, reset) if self._members else reset(given)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        given = self._inputs(tensordict, "_reset_env_preprocess" if self._changes_resets else None)
        for member, own in zip(self._members, given, strict=True):
            tensordict_reset = checked_result(member, member._reset(own, tensordict_reset))
        return tensordict_reset

    def _inputs(self, tensordict: TensorDictBase, method: str | None) -> list[TensorDictBase]:
        """Return the input of each member: that of the chain, changed by this method of the members further out."""
        given = [tensordict] * len(self._members)
        if method is not None:
            for i in range(len(given) - 1, 0, -1):
                given[i - 1] = getattr(self._members[i], method)(given[i])
        return given

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._changes_resets:
            for member in reversed(self._members):
                tensordict = member._reset_env_preprocess(tensordict)
        return tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change data forward, one transform after the other; see :meth:`Transform.forward`."""
        for member in self._members:
            tensordict = checked_result(member, member(tensordict))
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for member in self._inverses:
            tensordict = checked_result(member, member._inv_call(tensordict))
        return tensordict

    @property
    def invertible(self) -> bool:
        """Whether the inverse of any transform changes anything."""
        return any(member.invertible for member in self._members)

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Set for all transforms whether missing entries are skipped; see :class:`Transform`."""
        for member in self._members:
            member.set_missing_tolerance(mode)

    def init(self, tensordict: TensorDictBase) -> None:
        """Prepare each of the transforms; see :meth:`Transform.init`."""
        for member in self._members:
            member.init(tensordict)

    def dump(self, **kwargs: Any) -> None:
        """Write out the recorded data of each transform; see :meth:`Transform.dump`."""
        for member in self._members:
            member.dump(**kwargs)

    def close(self) -> None:
        """Release the resources of each transform; see :meth:`Transform.close`."""
        for member in self._members:
            member.close()

    # Specs --------------------------------------------------------------------------------------------------------

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Change the specs of everything that the env returns, one transform after the other."""
        for member in self._members:
            output_spec = member.transform_output_spec(output_spec)
        return output_spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Change the spec of the observations, one transform after the other; see :class:`Transform`."""
        return self._through("transform_observation_spec", observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Change the spec of the rewards, one transform after the other; see :class:`Transform`."""
        return self._through("transform_reward_spec", reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Change the spec of the end signals, one transform after the other; see :class:`Transform`."""
        return self._through("transform_done_spec", done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Change the spec of the actions, one transform after the other; see :class:`Transform`."""
        return self._through("transform_action_spec", action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Change the spec of the other inputs, one transform after the other; see :class:`Transform`."""
        return self._through("transform_state_spec", state_spec)

    def _through(self, method: str, spec: Composite) -> Composite:
        for member in self._members:
            spec = getattr(member, method)(spec)
        return spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Change the specs of everything that the env takes, one transform after the other."""
        for member in self._members:
            input_spec = member.transform_input_spec(input_spec)
        self._update_flags()  # a transform may learn from the specs that it has an inverse
        return input_spec

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """Return the batch size of the env after all transforms."""
        for member in self._members:
            batch_size = member.transform_env_batch_size(batch_size)
        return batch_size

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """Return the device of the env's data after all transforms."""
        for member in self._members:
            device = member.transform_env_device(device)
        return device

    def follow_device(self, device: torch.device | None) -> torch.device | None:
        """Move the tensors of each transform to the device of the data that it is given; return the last device."""
        for member in self._members:
            device = member.follow_device(device)
        return device

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """Change the result of ``env.fake_tensordict()``, one transform after the other."""
        for member in self._members:
            fake_tensordict = checked_result(member, member.transform_fake_tensordict(fake_tensordict))
        return fake_tensordict

    def __repr__(self) -> str:
        if not self._members:
            return "Compose()"
        members = ",\n".join(f"        {member!r}".replace("\n", "\n        ") for member in self._members)
        return f"Compose(\n{members})"
