"""BatchedEnvBase: several environments stepped together as one, whoever runs them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import entry, fast_tensordict, shallow_copy
from rlnb.data.ted.block import TEDBlock
from rlnb.data.ted.keys import NestedKey, as_key
from rlnb.envs import faults as env_faults
from rlnb.envs.batched import faults
from rlnb.envs.batched.arguments import kwargs_each, nested
from rlnb.envs.batched.drivers import EnvInfo
from rlnb.envs.batched.queries import BatchQueries
from rlnb.envs.partial_reset import Masks, deciding, reset_masks
from rlnb.envs.stacking import stack_steps


class BatchedEnvBase(BatchQueries):
    """The base of :class:`~rlnb.envs.SerialEnv` and :class:`~rlnb.envs.ParallelEnv`: how data goes to envs and back.

    Its arguments are those of :class:`~rlnb.envs.batched.life.BatchLife`.
    """

    def _is_complete(self, data: TensorDictBase, moment: str) -> bool:
        return True  # each env sees to its own data

    def _check_actions(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not isinstance(tensordict, LazyStackedTensorDict):
            return super()._check_actions(tensordict)
        assert self._infos is not None
        # The envs may have actions of different shapes, which no tensor holds.
        for row, info in zip(tensordict.unbind(0), self._infos, strict=True):
            specs = info.specs["input_spec", "full_action_spec"]
            for key in self.action_keys:
                action = row.get(key, None)
                if action is None:
                    raise KeyError(env_faults.no_action(key, row))
                env_faults.check_action(key, specs[key], action, specs[key].shape)
        return tensordict

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random action.

        Envs that draw random actions in a way of their own, such as legal ones only, draw them here, too.

        Args:
            tensordict: written to, if given.

        Returns:
            ``tensordict``, or a new one, with an action of each env.
        """
        self.start()
        if not self._draws:
            return super().rand_action(tensordict)
        rows: list[Any] = [None] * self.num_workers
        if tensordict is not None:
            rows = list(self._split(tensordict, [*self.observation_keys, *self.state_keys, *self.done_keys]))
        drawn = self._ask("rand_action", [((row,), {}) for row in rows])
        actions = self._join([found.select(*self.action_keys) for found in drawn])
        return actions if tensordict is None else tensordict.update(actions)

    def __getitem__(self, index: Any) -> BatchSlice:
        """Take some of the envs, as a batch that steps the same envs.

        Args:
            index: an integer, a slice, a list of integers or a mask. An integer gives a batch of one env.

        Returns:
            The smaller batch. Its envs are those of this batch: a step of one moves the other on, and they end
            with this one.

        Raises:
            IndexError: if there are no such envs.

        Example:
            >>> from rlnb.envs import GymEnv, SerialEnv
            >>> env = SerialEnv(3, lambda: GymEnv("Pendulum-v1"))
            >>> env[1:].rollout(5).batch_size
            torch.Size([2, 5])
        """
        try:
            which = [] if index is None else torch.arange(self.num_workers)[index].reshape(-1).tolist()
        except (IndexError, TypeError, ValueError, RuntimeError) as error:
            raise IndexError(faults.no_index(index, self.num_workers)) from error
        if not which:
            raise IndexError(faults.no_index(index, self.num_workers))
        return BatchSlice(self, which)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = entry(tensordict, "_step")
        if mask is not None:
            which = self._stepped(mask)
            if len(which) < self.num_workers:
                return self._step_where(tensordict, which)
        found = self._step_some(tensordict, range(self.num_workers))
        if found is None:
            assert self._block is not None
            return self._copied(self._block.next_row(0))
        return self._join(list(found.values()))

    def _partial_step(self, tensordict: TensorDictBase, partial: torch.Tensor) -> TensorDictBase:
        return self._step(tensordict)  # it reads "_step" itself

    def _stepped(self, mask: Any) -> list[int]:
        """Read a "_step" mask: which envs to step."""
        want = tuple(self._batch_size)
        if (
            not isinstance(mask, torch.Tensor)
            or mask.dtype != torch.bool
            or tuple(mask.shape) not in (want, (*want, 1))
        ):
            raise ValueError(faults.step_mask(mask, want))
        rows = mask.reshape(self.num_workers, -1).cpu()
        some = rows.any(-1)
        if not torch.equal(some, rows.all(-1)):
            raise ValueError(faults.step_mask(mask, want))
        return some.nonzero().flatten().tolist()

    def _step_some(self, tensordict: TensorDictBase, which: Sequence[int]) -> dict[int, TensorDictBase] | None:
        """Step some of the envs; return their data, or None if it is in the block."""
        if self._block is None:
            rows = self._split(tensordict, self._input_keys())
            return self._step_envs(which, {i: rows[i] for i in which})
        self._write_inputs(tensordict)
        return self._step_envs(which, None)

    def _step_where(self, tensordict: TensorDictBase, which: list[int]) -> TensorDictBase:
        """Step some of the envs; the others keep their observations and end signals, and have a reward of zero."""
        assert self._infos is not None
        found = self._step_some(tensordict, which) if which else {}
        if found is None:
            assert self._block is not None
            stepped = self._copied(self._block.next_row(0))
            found = {i: stepped[i] for i in which}
        seen = [*self.observation_keys, *self.done_keys]
        rows = []
        for i, row in enumerate(tensordict.unbind(0)):
            if i in found:
                rows.append(found[i])
                continue
            specs = self._infos[i].specs["output_spec"]
            kept = TensorDict({}, self._batch_size[1:], device=row.device)
            for key in seen:
                value = row.get(key, None)
                if value is None:
                    name = "full_done_spec" if key in self.done_keys else "full_observation_spec"
                    value = specs[name][key].zero()
                kept.set(key, value.clone())
            rows.append(kept.update(specs["full_reward_spec"].zero()))
        return self._join(rows)

    @abstractmethod
    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        """Write what a step reads to where the envs read it."""

    def _input_keys(self) -> list[NestedKey]:
        """What a step hands on: actions, and to envs without a state of their own all that they gave."""
        if "input_keys" not in self._cache:
            keys = list(self.action_keys)
            if self.state_keys:
                keys = list(dict.fromkeys([*keys, *self.state_keys, *self.observation_keys, *self.done_keys]))
            self._cache["input_keys"] = keys
        return self._cache["input_keys"]

    def _split(self, tensordict: TensorDictBase, keys: list[NestedKey]) -> list[TensorDictBase]:
        """Cut entries into a TensorDict for each env, on its device."""
        assert self._infos is not None
        if isinstance(tensordict, LazyStackedTensorDict):
            rows = [row.select(*keys, strict=False) for row in tensordict.unbind(0)]
        else:
            values = {key: value for key in keys if (value := entry(tensordict, key)) is not None}
            if self.state_keys:
                values = {key: value for key, value in values.items() if self._fits(key, value)}
            columns = {key: value.unbind(0) for key, value in values.items()}
            rows = [
                fast_tensordict(nested({key: column[i] for key, column in columns.items()}), self._batch_size[1:])
                for i in range(self.num_workers)
            ]
        return [row.to(info.device) if info.device else row for row, info in zip(rows, self._infos, strict=True)]

    def _fits(self, key: NestedKey, value: Any) -> bool:
        """Whether the envs can read an entry; a transform around the batch may have given it another shape."""
        if "input_shapes" not in self._cache:
            found: dict[NestedKey, torch.Size] = {}
            for spec in self._specs.values():
                found.update({leaf: spec[leaf].shape for leaf in spec.keys(True, True)})
            self._cache["input_shapes"] = found
        shape = self._cache["input_shapes"].get(key)
        return shape is None or -1 in shape or value.shape == shape

    def _copied(self, row: dict[NestedKey, torch.Tensor]) -> TensorDictBase:
        """Make data of its own of a row of the block."""
        entries = nested({key: tensor.clone() for key, tensor in row.items()})
        if self._device is None or self._device.type == "cpu":
            return self._contained(entries, (), self._device)
        return self._contained(entries, (), None).to(self._device, non_blocking=self.non_blocking)

    def _contained(self, entries: dict[str, Any], path: tuple[str, ...], device: torch.device | None) -> TensorDictBase:
        """Put nested entries into TensorDicts of the batch sizes that the specs say."""
        for name, value in entries.items():
            if type(value) is dict:
                entries[name] = self._contained(value, (*path, name), device)
        return fast_tensordict(entries, self._nested_sizes.get(path, self._batch_size), device)

    def _join(self, data: list[TensorDictBase]) -> TensorDictBase:
        """Put the data of the envs together."""
        joined: TensorDictBase = lazy_stack(data, 0) if self._lazy else stack_steps(data, 0)
        return joined if self._device is None else joined.to(self._device)

    def _reset_where(self, tensordict: TensorDictBase | None, masks: Masks, **kwargs: Any) -> TensorDictBase:
        if not self._lazy or tensordict is None:
            return super()._reset_where(tensordict, masks, **kwargs)
        # Data that changes its shape is no matter for masks: the envs that are reset get new rows.
        found = self._reset_some(tensordict, masks, **kwargs)
        assert found is not None
        rows = [row.exclude(*self.reset_keys) for row in tensordict.unbind(0)]
        return lazy_stack([rows[i].update(found[i]) if i in found else rows[i] for i in range(self.num_workers)], 0)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        masks = {} if tensordict is None else reset_masks(self, tensordict)
        found = self._reset_some(tensordict, masks, **kwargs)
        if found is None:
            assert self._block is not None
            return self._copied(self._block.root_row(0))
        # Rows that are not reset mean nothing: the data before prevails there. It may have other shapes, for whoever is
        # around this env may have changed it.
        blank = next(iter(found.values()))
        return self._join([found[i] if i in found else shallow_copy(blank) for i in range(self.num_workers)])

    def _reset_some(
        self,
        tensordict: TensorDictBase | None,
        masks: Masks,
        *,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> dict[int, TensorDictBase] | None:
        """Reset the envs that masks say; return the data of those, or None if it is in the block."""
        each = kwargs_each(list_of_kwargs, self.num_workers, "list_of_kwargs")
        state: list[TensorDictBase | None] = [None] * self.num_workers
        if tensordict is not None and self.state_keys:
            state = list(self._split(tensordict, self.state_keys))
        which: dict[int, tuple[TensorDictBase | None, Mapping[str, Any]]] = {}
        for i in range(self.num_workers):
            rows = {level: mask[i] for level, mask in deciding(masks).items()}
            if rows and not any(bool(mask.any()) for mask in rows.values()):
                continue
            given = state[i]
            # To a stateless env it matters whether data comes with a mask: it starts anew then, not from that data.
            if given is not None or not all(bool(mask.all()) for mask in rows.values()):
                given = TensorDict({}, self._batch_size[1:]) if given is None else given
                for level, mask in rows.items():
                    given.set(as_key((*level, "_reset")), mask)
            which[i] = given, {**kwargs, **each[i]}
        return self._reset_envs(which)


class BatchSlice(BatchedEnvBase):
    """Some of the envs of a batch, stepped as a batch; made by indexing one, such as ``env[1:]``.

    Args:
        batch: whose envs they are.
        which: which of them.
    """

    def __init__(self, batch: BatchedEnvBase, which: list[int]) -> None:
        # torch.nn.Module would take the batch for a part of this env.
        self.__dict__["_batch"], self._which = batch, which
        fns = [batch._fns[i] for i in which]
        super().__init__(len(which), fns, device=batch._given_device, use_buffers=False)

    _batch: BatchedEnvBase
    _which: list[int]

    def _make_envs(self) -> list[EnvInfo]:
        self._batch.start()
        assert self._batch._infos is not None
        return [self._batch._infos[i] for i in self._which]

    def _end_envs(self) -> None:
        """They end with the batch."""

    def _connect(self, block: TEDBlock | None) -> None:
        """They are connected to the batch."""

    @property
    def is_closed(self) -> bool:
        """Whether this slice was closed or has not started, or the batch is closed."""
        return self._infos is None or self._batch.is_closed

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        """Follows from whether the envs run."""

    def start(self) -> None:
        """Make the envs of the batch, if that has not happened yet."""
        if self._batch.is_closed:
            self._infos = None
        super().start()

    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        """The batch writes them."""

    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        batch, rows = self._batch, {self._which[i]: row for i, row in (inputs or {}).items()}
        assert batch._infos is not None
        # The rows of the other envs are not read.
        blank = next(iter(rows.values()))
        given = lazy_stack([rows.get(i, blank) for i in range(batch.num_workers)], 0)
        found = batch._step_some(given if batch._lazy else given.contiguous(), list(rows))
        if found is None:
            assert batch._block is not None
            data = batch._copied(batch._block.next_row(0))
            found = {i: data[i] for i in rows}
        return {i: found[self._which[i]] for i in which}

    def _reset_envs(
        self, which: dict[int, tuple[TensorDictBase | None, Mapping[str, Any]]]
    ) -> dict[int, TensorDictBase] | None:
        batch = self._batch
        found = batch._reset_envs({self._which[i]: arguments for i, arguments in which.items()})
        if found is None:
            assert batch._block is not None
            data = batch._copied(batch._block.root_row(0))
            found = {self._which[i]: data[self._which[i]] for i in which}
        return {i: found[self._which[i]] for i in which}

    def _ask(self, name: str, arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] | None) -> list[Any]:
        if arguments is None:
            values = self._batch._ask(name, None)
            return [values[i] for i in self._which]
        return [self._ask_one(i, name, given) for i, given in enumerate(arguments)]

    def _ask_one(self, i: int, name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        return self._batch._ask_one(self._which[i], name, arguments)

    def __repr__(self) -> str:
        return f"{self._batch!r}[{self._which}]"


__all__ = ["BatchSlice", "BatchedEnvBase"]
