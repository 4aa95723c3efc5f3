"""Compose: transforms in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.call import as_transform
from rlnb.envs.transforms.placement import Placed
from rlnb.envs.transforms.transform import Transform, checked


class Compose(Transform):
    """Transforms in a row: forwards the first comes first, backwards the last.

    Args:
        *transforms: transforms, or functions that take and return a TensorDict.

    Attributes:
        transforms: them, as a ``torch.nn.ModuleList``.

    Raises:
        TypeError: if one is neither a transform nor a function.
        RuntimeError: if one is in another env or Compose already.

    Example:
        >>> from rlnb.envs import InitTracker, RewardSum, StepCounter
        >>> chain = Compose(StepCounter(), RewardSum())
        >>> chain.append(InitTracker())
        >>> len(chain), chain[-1]
        (3, InitTracker(keys=[]))
    """

    def __init__(self, *transforms: Transform | Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self.transforms = torch.nn.ModuleList()
        self._members: list[Transform] = []
        try:
            for transform in map(as_transform, transforms):
                transform.set_container(self)
                self._members.append(transform)
        except Exception:
            for transform in self._members:
                transform.reset_parent()
            raise
        self._renew()

    def _renew(self) -> None:
        """Derive from the members what is looked up often."""
        self.transforms = torch.nn.ModuleList(self._members)
        self._find_inverses()

    def _find_inverses(self) -> None:
        self._backwards = [member for member in reversed(self._members) if member.invertible]
        self._any_changes_resets = any(member._changes_resets for member in self._members)
        self._any_fills_resets = any(member._fills_resets for member in self._members)
        self._any_changes_input = any(member._changes_input for member in self._members)

    # As a list ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self._members)

    @overload
    def __getitem__(self, index: int) -> Transform: ...

    @overload
    def __getitem__(self, index: slice) -> Compose: ...

    def __getitem__(self, index: int | slice) -> Transform:
        """Return one of the transforms itself, or a Compose of clones of several, which is in no env."""
        if isinstance(index, slice):
            return Compose(*(member.clone() for member in self._members[index]))
        try:
            return self._members[index]
        except IndexError:
            raise IndexError(faults.no_member(self, index)) from None

    def append(self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> None:
        """Add a transform at the end.

        Args:
            transform: as for the constructor. If the env cannot take it, nothing changes.
        """
        self.insert(len(self), transform)

    def insert(self, index: int, transform: Transform | Callable[[TensorDictBase], TensorDictBase]) -> None:
        """Add a transform before another.

        Args:
            index: of the other, as for ``list.insert``.
            transform: as for the constructor. If the env cannot take it, nothing changes.
        """
        added = as_transform(transform)
        added.set_container(self)
        before = list(self._members)
        self._members.insert(index, added)
        self._try(before, [added])

    def pop(self, index: int = -1) -> Transform:
        """Take a transform out.

        Args:
            index: of the transform.

        Returns:
            The transform, which is in no env any more.
        """
        before = list(self._members)
        taken = self._members.pop(index)
        self._try(before, [])
        taken.reset_parent()
        return taken

    def _try(self, before: list[Transform], added: list[Transform]) -> None:
        """Tell the env of a change, and take it back if the env refuses it."""
        try:
            self._changed()
        except Exception:
            self._members = before
            for transform in added:
                transform.reset_parent()
            self._changed()
            raise

    def _changed(self) -> None:
        self._renew()
        self.empty_cache()
        holder = self.container
        if holder is not None:
            holder._changed()

    # Where it stands ----------------------------------------------------------------------------------------------

    def empty_cache(self) -> None:
        """Forget what was derived from the place of the transforms."""
        super().empty_cache()
        for member in self.__dict__.get("_members", ()):
            member.empty_cache()

    def _clones_before(self, member: Placed) -> list[Transform]:
        at = next(i for i, other in enumerate(self._members) if other is member)
        return [other.clone() for other in self._members[:at]]

    def clone(self) -> Compose:
        """Copy the Compose and its transforms without their place; see :meth:`Transform.clone`."""
        return self[:]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for member in self._members:
            member.set_container(self)

    # Data ---------------------------------------------------------------------------------------------------------

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for member in self._members:
            next_tensordict = checked(member, member._call(next_tensordict))
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._any_changes_input:
            return self._step_with_inputs(tensordict, next_tensordict)
        for member in self._members:
            next_tensordict = member._step(tensordict, next_tensordict)
            if next_tensordict is None:
                checked(member, None)
        return next_tensordict

    def _step_with_inputs(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """The same, where a transform further in is given something else than one further out."""
        given = [tensordict] * len(self._members)
        for i in range(len(given) - 1, 0, -1):
            given[i - 1] = self._members[i]._step_input(given[i])
        for member, own in zip(self._members, given, strict=True):
            next_tensordict = checked(member, member._step(own, next_tensordict))
        return next_tensordict

    @property
    def _changes_input(self) -> bool:
        return self._any_changes_input

    def _step_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        for member in reversed(self._members):
            tensordict = member._step_input(tensordict)
        return tensordict

    def _reset_below(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        return self._members[0]._reset_below(given, reset) if self._members else reset(given)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        given = self._inputs(tensordict)
        for member, own in zip(self._members, given, strict=True):
            tensordict_reset = checked(member, member._reset(own, tensordict_reset))
        return tensordict_reset

    def _inputs(self, tensordict: TensorDictBase) -> list[TensorDictBase]:
        """What each member's reset is given: what came from outside, as those further out hand it on."""
        given = [tensordict] * len(self._members)
        if self._any_changes_resets:
            for i in range(len(given) - 1, 0, -1):
                given[i - 1] = self._members[i]._reset_env_preprocess(given[i])
        return given

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._any_changes_resets:
            for member in reversed(self._members):
                tensordict = member._reset_env_preprocess(tensordict)
        return tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change data forwards, with one transform after the other; see :meth:`Transform.forward`."""
        for member in self._members:
            tensordict = checked(member, member(tensordict))
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for member in self._backwards:
            tensordict = checked(member, member._inv_call(tensordict))
        return tensordict

    @property
    def _fills_resets(self) -> bool:
        return self._any_fills_resets

    @property
    def _changes_resets(self) -> bool:
        return self._any_changes_resets

    @property
    def invertible(self) -> bool:
        """Whether the inverse of any of the transforms changes anything."""
        return any(member.invertible for member in self._members)

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Say for all transforms whether an entry that is not there is passed over."""
        for member in self._members:
            member.set_missing_tolerance(mode)

    def init(self, tensordict: TensorDictBase) -> None:
        """Prepare each of the transforms; see :meth:`Transform.init`."""
        for member in self._members:
            member.init(tensordict)

    def dump(self, **kwargs: Any) -> None:
        """Write out what each of the transforms has recorded; see :meth:`Transform.dump`."""
        for member in self._members:
            member.dump(**kwargs)

    def close(self) -> None:
        """Release what each of the transforms holds; see :meth:`Transform.close`."""
        for member in self._members:
            member.close()

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """Change what ``env.fake_tensordict()`` returns, with one transform after the other."""
        for member in self._members:
            fake_tensordict = checked(member, member.transform_fake_tensordict(fake_tensordict))
        return fake_tensordict

    # Specs --------------------------------------------------------------------------------------------------------

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Change the specs of all that the env gives, with one transform after the other."""
        for member in self._members:
            output_spec = member.transform_output_spec(output_spec)
        return output_spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Change the spec of the observations, with one transform after the other; see :class:`Transform`."""
        return self._through("transform_observation_spec", observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Change the spec of the rewards likewise."""
        return self._through("transform_reward_spec", reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Change the spec of the end signals likewise."""
        return self._through("transform_done_spec", done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Change the spec of the actions likewise."""
        return self._through("transform_action_spec", action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Change the spec of the other inputs likewise."""
        return self._through("transform_state_spec", state_spec)

    def _through(self, method: str, spec: Composite) -> Composite:
        for member in self._members:
            spec = getattr(member, method)(spec)
        return spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Change the specs of all that the env takes, with one transform after the other."""
        for member in self._members:
            input_spec = member.transform_input_spec(input_spec)
        self._find_inverses()  # a transform may learn from the specs that it has an inverse
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

    def __repr__(self) -> str:
        if not self._members:
            return "Compose()"
        members = ",\n".join(f"        {member!r}".replace("\n", "\n        ") for member in self._members)
        return f"Compose(\n{members})"


__all__ = ["Compose"]
