"""What an environment checks of its inputs and of its own data: rarely, and then everything at once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import entry, raw_entries, shallow_copy
from rlnb.data import TensorSpec
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple, split_keys
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import faults
from rlnb.envs.specs import EnvSpecs


class EnvGuards(EnvSpecs):
    """The checks of :class:`~rlnb.envs.EnvBase`; the texts are in :mod:`rlnb.envs.faults`.

    Args:
        device: where the data of the env lives; None for no statement.
        batch_size: how many envs are batched together.

    Attributes:
        batch_locked: False for a stateless env, which takes inputs of any batch size.
        is_closed: whether the env was closed.
    """

    batch_locked: bool = True

    def __init__(self, device: torch.device | None, batch_size: torch.Size) -> None:
        super().__init__(device, batch_size)
        self.is_closed = False
        self.allow_done_after_reset = False
        self._checks_data = True
        self._run_type_checks: bool | None = None
        self._misfit = False
        self._warned_about: set[str] = set()

    @property
    def run_type_checks(self) -> bool:
        """Whether the data of every step is checked against the specs. Set to False, not even the first is."""
        return self._run_type_checks is True

    @run_type_checks.setter
    def run_type_checks(self, mode: bool | None) -> None:
        self._run_type_checks = None if mode is None else bool(mode)

    def _assert_open(self, what: str) -> None:
        if self.is_closed:
            if what != "reset":
                raise RuntimeError(faults.closed(self, what))
            self.is_closed = False  # a backend that cannot start again says so itself

    def _assert_batch_size(self, tensordict: TensorDictBase, what: str) -> None:
        if type(tensordict) is not TensorDict and not isinstance(tensordict, TensorDictBase):
            raise TypeError(faults.no_tensordict(what, tensordict))
        got, want = tensordict.batch_size, self._batch_size
        if got != want and (self.batch_locked or got[len(got) - len(want) :] != want):
            raise RuntimeError(faults.batch_size(self, got, what))

    def _assert_new(self, result: Any, given: TensorDictBase | None, method: str) -> None:
        if result is given or (type(result) is not TensorDict and not isinstance(result, TensorDictBase)):
            raise TypeError(faults.not_new(self, result, method))
        if result.batch_size != self._batch_size and self.batch_locked:
            raise RuntimeError(faults.result_batch_size(self, result, self._batch_size, method))

    def _assert_unlocked(self, tensordict: TensorDictBase, what: str) -> None:
        if tensordict.is_locked:
            raise RuntimeError(faults.locked(what))

    def _assert_not_over(self, tensordict: TensorDictBase) -> None:
        # In a batch, envs may go on while others wait for their reset.
        done = entry(tensordict, DONE)
        if done is None or self.allow_done_after_reset:
            return
        seen, version = self._cache.get("running", (None, None))
        if not (done is seen and done._version == version) and bool(done.all()):
            raise RuntimeError(faults.over(self))

    def _none(self, done: torch.Tensor) -> bool:
        """Whether nothing in an end signal is True; comparing it with zeros takes a third of the time of ``any``."""
        zeros = self._cache.get("zeros")
        if zeros is None or zeros.shape != done.shape or zeros.device != done.device:
            zeros = self._cache["zeros"] = torch.zeros_like(done)
        return torch.equal(done, zeros)

    def _see_running(self, done: torch.Tensor) -> None:
        """Keep in mind an end signal in which nothing is True: the step that follows needs not look again."""
        if not done.is_inference():  # then nobody counts how often it was written to
            self._cache["running"] = done, done._version

    def _action_leaves(self) -> list[tuple[NestedKey, TensorSpec]]:
        if "action_leaves" not in self._cache:
            spec = self.full_action_spec
            self._cache["action_leaves"] = [(key, spec[key]) for key in self.action_keys]
        return self._cache["action_leaves"]

    def _check_actions(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compare the actions with their specs.

        Args:
            tensordict: the input of a step.

        Returns:
            The input for the env's own step: the same, or a copy with actions of the shape and dtype of their specs.

        Raises:
            KeyError: If there is no action.
            ValueError: If an action has another shape, by more than a missing dimension of size 1.
            TypeError: If an action is not a tensor, or its dtype would change its numbers.
        """
        if "actions" not in self._cache:
            self._cache["actions"] = [(key, spec, spec.shape, spec.dtype) for key, spec in self._action_leaves()]
        given = tensordict
        for key, spec, shape, dtype in self._cache["actions"]:
            if -1 in shape:  # agents with actions of different shapes, which no tensor holds
                if not has_entry(tensordict, as_tuple(key)):
                    raise KeyError(faults.no_action(key, tensordict))
                continue
            action = entry(tensordict, key)
            if action is None:
                raise KeyError(faults.no_action(key, tensordict))
            if not self.batch_locked:
                shape = torch.Size((*tensordict.batch_size, *shape[self.ndim :]))
            if type(action) is not torch.Tensor or action.dtype is not dtype or action.shape != shape:
                fitted = faults.check_action(key, spec, action, shape)
                if fitted is not action:
                    given = (shallow_copy(tensordict) if given is tensordict else given).set(key, fitted)
        return given

    def _is_complete(self, data: TensorDictBase, moment: str) -> bool:
        """Whether data needs no further look: its first like were checked, and all entries are there."""
        if moment in self._unchecked or self._run_type_checks or self._misfit:
            return False
        return self._has_all(data, moment)

    def _has_all(self, data: TensorDictBase, moment: str) -> bool:
        """Whether all the entries are there that the specs name."""
        if moment not in self._cache:
            rewards = self.reward_keys if moment == "step" else ()
            names, below = split_keys((*self.observation_keys, *rewards, *self.done_keys))
            self._cache[moment] = frozenset(names), {name: tuple(paths) for name, paths in below.items()}
        names, below = self._cache[moment]
        if type(data) is not TensorDict:
            # The rows of a lazy stack may differ in shape: of those only the names can be read.
            found = set(leaf_keys(data))
            return found >= names and all((name, *p) in found for name, ps in below.items() for p in ps)
        if not names.issubset(raw_entries(data)):
            return False
        return not below or all(has_entry(data, (name, *p)) for name, ps in below.items() for p in ps)

    def _fit_data(self, data: TensorDictBase, moment: str) -> None:
        """Give rewards and end signals the shape of their specs, where only dimensions of size 1 differ, and the dtype.

        A warning tells of the first time. Nothing else is converted: observations are what the env says that they are.

        Args:
            data: the output of a reset or step; written to.
            moment: "reset" or "step".
        """
        if type(data) is not TensorDict:
            return
        leaves = list(self.full_done_spec.items(True, True))
        if moment == "step":
            leaves += self.full_reward_spec.items(True, True)
        ends = len(self.done_keys)
        for i, (key, spec) in enumerate(leaves):
            value = data.get(key, None) if has_entry(data, as_tuple(key)) else None
            if type(value) is not torch.Tensor:
                continue
            shape = spec.shape if self.batch_locked else torch.Size((*data.batch_size, *spec.shape[self.ndim :]))
            fitted = faults.same_but_ones(value, shape)
            # A check of the specs reports dtypes; with checks switched off, they stay as they are.
            if self._checks_data and self._run_type_checks is not False:
                fitted = _cast(fitted, spec.dtype, is_end=i < ends)
            if fitted is not value:
                data.set(key, fitted)
                self._misfit = True
                self._warn_once(f"{moment} {key!r}", faults.misfit(self, key, value, fitted, moment))

    def _warn_once(self, about: str, text: str) -> None:
        """Warn, unless this env has warned about the same before."""
        if about not in self._warned_about:
            self._warned_about.add(about)
            warnings.warn(text, UserWarning, stacklevel=4)

    def _check_specs(self, moment: str) -> None:
        """Look at the specs themselves, before the first data is compared with them."""
        if moment in self._unchecked and self._run_type_checks is not False:
            self.assert_distinct_keys()

    def _check_data(self, data: TensorDictBase, moment: str) -> None:
        """Compare data with the specs: the first of a reset and of a step, and whatever is not complete.

        Args:
            data: the output of a reset or step.
            moment: "reset" or "step".

        Raises:
            RuntimeError: with all that is wrong, in one message.
        """
        if not self._checks_data:
            return
        if self._run_type_checks is False:
            self._unchecked.discard(moment)
            return
        first = moment in self._unchecked
        if not first and not self._run_type_checks and (moment == "reset" or self._has_all(data, moment)):
            return
        specs = [self.observation_spec, self.full_done_spec]
        if moment == "step":
            specs.append(self.full_reward_spec)
        faults.check_data(self, specs, data, f"first {moment}" if first else moment)
        self._unchecked.discard(moment)

    def _done_levels(self) -> list[tuple[tuple[str, ...], NestedKey]]:
        """The levels that have end signals, each with the key of its "done"."""
        if "done_levels" not in self._cache:
            levels = [as_tuple(group[0])[:-1] for group in self.done_keys_groups]
            self._cache["done_levels"] = [(level, as_key((*level, DONE))) for level in levels]
        return self._cache["done_levels"]

    def _may_be_done(self, entries: Mapping[str, Any]) -> bool:
        """A quick look whether an env could be done after a reset: False is certain, True is not."""
        done = entries.get(DONE) if len(self._done_levels()) == 1 else None
        if done is None or not self._none(done):
            return True
        self._see_running(done)
        return False


def has_entry(data: Any, path: tuple[str, ...]) -> bool:
    """Whether data has an entry, which need not be readable: the rows of a lazy stack may differ in shape.

    Args:
        data: any TensorDict.
        path: the key of the entry, as a tuple.

    Returns:
        True if it is there.
    """
    for name in path[:-1]:
        data = entry(data, name)
        if not isinstance(data, TensorDictBase):
            return False
    return path[-1] in raw_entries(data) if type(data) is TensorDict else path[-1] in set(data.keys())


def _cast(value: torch.Tensor, dtype: torch.dtype | None, is_end: bool) -> torch.Tensor:
    """Cast a reward or an end signal where that is surely meant; leave it to the check of the data where not."""
    if dtype is None or value.dtype is dtype:
        return value
    if is_end:
        return value != 0 if dtype is torch.bool else value
    floats = value.dtype.is_floating_point and dtype.is_floating_point
    return value.to(dtype) if floats or torch.can_cast(value.dtype, dtype) else value
