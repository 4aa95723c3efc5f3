"""Abstract base class of batched environments, which step several envs as one."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack

from rlnb._tensordict import entry, fast_tensordict, shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.batched.attributes import PLAIN, EnvValues, Method
from rlnb.envs.batched.drivers import EnvInfo
from rlnb.envs.batched.specs import join_specs, keys_without_numpy_dtype, nested_sizes, varying_keys
from rlnb.envs.batched.trace import BatchTrace, Turn
from rlnb.envs.libs.gym.codec import drawn_actions, native_action
from rlnb.envs.partial_reset import Masks, deciding, reset_masks
from rlnb.envs.stacking import stack_steps
from rlnb.envs.validation import fit_action

MakeEnv = Callable[..., EnvBase]
#: Positional and keyword arguments of a method of an env.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
#: Entries for the reset of an env, such as "_reset" masks, and keyword arguments of the reset.
ResetArguments = tuple[TensorDictBase | None, Mapping[str, Any]]


class BatchedEnvBase(EnvBase):
    """Abstract base class of :class:`~rlnb.envs.SerialEnv` and :class:`~rlnb.envs.ParallelEnv`.

    The envs are made by the first reset, or by :meth:`start`. Specs, batch size and device follow from them.

    Args:
        num_workers: number of envs.
        create_env_fn: function that makes an env, or a list with a function for each env, for different tasks.
        create_env_kwargs: keyword arguments for ``create_env_fn``, or a list with keyword arguments for each env.
        share_individual_td: whether each env has its own TensorDict, in a lazy stack. Default: only if the data
            of the envs differs in shape.
        shared_memory, memmap: have no effect here; see :class:`ParallelEnv`.
        policy_proof: has no effect: the specs determine the entries of a step.
        device: device of the returned tensors. Default: that of the envs.
        non_blocking: whether data is moved to ``device`` asynchronously.
        use_buffers: whether data goes through memory that is allocated once. Default: yes, unless shapes vary.
        pin_memory: must be False: the shared memory of the envs is not pinned.
        allow_step_when_done: must be False: pass ``allow_done_after_reset`` to the envs that need it.
        metadata_from_workers: has no effect: specs always come from the envs themselves.
        consolidate: has no effect: it changes how TorchRL packs messages, and no data.
        daemon: has no effect: workers always end with this process, and may start processes.
        shutdown_timeout: seconds that :meth:`close` gives idle workers to close their envs, before it kills them.

    Raises:
        ValueError: If ``num_workers`` is not positive, a list has another length, ``pin_memory`` or
            ``allow_step_when_done`` is True, or ``shutdown_timeout`` is not a positive number.
        TypeError: If ``create_env_fn`` cannot be called, or there is no such option.

    Example:
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> isinstance(SerialEnv(2, lambda: GymEnv("CartPole-v1")), BatchedEnvBase)
        True
    """

    num_workers: int
    _infos: list[EnvInfo] | None
    _owner: int | None
    _block: TEDBlock | None
    _stored_specs: dict[str, Composite]
    _trace: BatchTrace | None = None

    #: Whether data goes through a block even if the envs cannot fill its rows themselves.
    _block_for_all = False

    #: Whether the envs run in other processes, which are children only of the process that has started them.
    _has_processes = False

    def __init__(
        self,
        num_workers: int,
        create_env_fn: MakeEnv | Sequence[MakeEnv],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        share_individual_td: bool | None = None,
        shared_memory: bool = True,
        memmap: bool = False,
        policy_proof: Callable[..., Any] | None = None,
        device: torch.device | str | int | None = None,
        non_blocking: bool = False,
        use_buffers: bool | None = None,
        pin_memory: bool = False,
        allow_step_when_done: bool = False,
        metadata_from_workers: bool = False,
        consolidate: bool = True,
        daemon: bool = False,
        shutdown_timeout: float = 2.0,
        **unknown: Any,
    ) -> None:
        name = type(self).__name__
        if unknown:
            option = next(iter(unknown))
            known = {*inspect.signature(BatchedEnvBase.__init__).parameters, *inspect.signature(type(self)).parameters}
            known -= {"self", "unknown", "kwargs", "args", *unknown}
            close = difflib.get_close_matches(option, known, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{name}() has no option {option!r}.{hint} It takes: {', '.join(sorted(known))}.")
        if isinstance(num_workers, bool) or not hasattr(num_workers, "__index__") or num_workers < 1:
            raise ValueError(f"num_workers, the number of envs, must be a positive integer, got {num_workers!r}.")
        # Before super().__init__(), in which torch.nn.Module and EnvBase read properties that depend on them.
        self.num_workers, self._infos, self._owner, self._block = int(num_workers), None, None, None
        self._stored_specs = {}
        check_batch_options(name, pin_memory, allow_step_when_done, shutdown_timeout)
        self._shutdown_timeout = shutdown_timeout
        self._fns = one_each(create_env_fn, num_workers, "create_env_fn")
        self._kwargs = kwargs_each(create_env_kwargs, num_workers)
        for fn in self._fns:
            if isinstance(fn, EnvBase) or not callable(fn):  # an env can be called, too
                raise TypeError(errors.not_an_env_function(fn))
        super().__init__(device, ())
        self._given_device, self.non_blocking = self._device, non_blocking
        self.share_individual_td, self.use_buffers, self._memmap = share_individual_td, use_buffers, memmap

    # For subclasses -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _make_envs(self) -> list[EnvInfo]:
        """Make the envs and describe them."""

    @abstractmethod
    def _end_envs(self) -> None:
        """End the envs, if there are any."""

    @abstractmethod
    def _connect(self, block: TEDBlock | None) -> None:
        """Let the envs write to the rows of the block, or return their data if there is no block."""

    @abstractmethod
    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        """Write what a step reads to where the envs read it."""

    @abstractmethod
    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        """Step some envs: with given inputs, and return the results, or with those of :meth:`_write_inputs`."""

    @abstractmethod
    def _reset_envs(self, which: dict[int, ResetArguments]) -> dict[int, TensorDictBase] | None:
        """Reset some envs. Without a block, return the data."""

    @abstractmethod
    def _read_each(self, name: str) -> list[Any]:
        """Read an attribute of each env. One that can be called is a :class:`~rlnb.envs.batched.drivers.Method`."""

    @abstractmethod
    def _call_each(self, name: str, arguments: list[Arguments]) -> list[Any]:
        """Call a method of each env, with arguments for each."""

    @abstractmethod
    def _call_one(self, i: int, name: str, arguments: Arguments) -> Any:
        """Call a method of env ``i``."""

    # Start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the envs, unless they run already. Methods that need them call it by themselves.

        Raises:
            RuntimeError: If an env cannot be made, or the envs do not fit together.
        """
        if self._infos is not None:
            if self._has_processes and self._owner != os.getpid():
                raise RuntimeError(
                    f"This {type(self).__name__} belongs to the process that started it, and this is a fork of that "
                    "process. Fix: make a new one here."
                )
            return
        self._owner = os.getpid()
        try:
            self._set_up(self._make_envs())
        except BaseException:
            self._end_envs()
            self._infos = None
            raise

    def _set_up(self, infos: list[EnvInfo]) -> None:
        """Join the specs of the envs, and allocate the memory for their data."""
        specs = join_specs(infos)
        device = self._given_device
        if device is None:
            devices = {info.device for info in infos}
            device = devices.pop() if len(devices) == 1 else torch.device("cpu")
        if device is not None:
            specs = {name: spec.to(device) for name, spec in specs.items()}
        self._device = device
        self._batch_size = torch.Size((self.num_workers, *infos[0].batch_size))
        self._stored_specs = {name: spec.lock_() for name, spec in specs.items()}
        self._nested_sizes = nested_sizes(specs)
        self._unchecked = set()  # each env checks its first data itself
        self.empty_cache()
        varying = varying_keys(specs)
        if self.use_buffers and (varying or self.share_individual_td):
            raise RuntimeError(
                f"use_buffers=True needs entries of fixed shape and dtype, which these lack: {varying}. "
                "Fix: leave use_buffers out; the data then goes through messages, which is slower."
            )
        self._lazy = bool(self.share_individual_td or varying)
        with_buffers = not self._lazy and self.use_buffers is not False
        rows = [(info.root, info.next_only) for info in infos]
        self._row_mode = with_buffers and rows[0][0] is not None and all(row == rows[0] for row in rows)
        self._infos = infos
        self._draws = any(info.draws for info in infos)
        with_block = self._row_mode or (self._block_for_all and with_buffers)
        if with_block and (unknown := keys_without_numpy_dtype(specs)):
            if self.use_buffers:
                raise RuntimeError(
                    f"use_buffers=True needs dtypes that NumPy has, got others (such as torch.bfloat16) in: {unknown}. "
                    "Fix: leave use_buffers out; the data then goes through messages, which is slower. Or cast the "
                    "entries in the env: DTypeCastTransform(torch.bfloat16, torch.float32)."
                )
            with_block = self._row_mode = False
        self._block = self._new_block() if with_block else None
        self._connect(self._block)

    def _new_block(self) -> TEDBlock:
        """Allocate a block of one row, which holds the last reset and the last step."""
        return TEDBlock(*self._row_leaves(), 1, (self.num_workers,))

    def close(self, *, raise_if_closed: bool = False) -> None:
        """End the envs. The next reset makes new ones.

        Raises:
            RuntimeError: If ``raise_if_closed`` is True and no envs are running.
        """
        if self._infos is None:
            if raise_if_closed:
                raise RuntimeError(
                    f"close(raise_if_closed=True) was called on a {type(self).__name__} whose envs are not running. "
                    "Fix: env.close(), which may be called twice."
                )
            return
        try:
            if self._owner == os.getpid() or not self._has_processes:
                self._end_envs()
        finally:
            self._infos = None
            self._block = None

    @property
    def is_closed(self) -> bool:
        """Whether the envs are not running. The first reset makes them, or :meth:`start`."""
        return self._infos is None

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        """Ignored: it follows from whether the envs run."""

    def _assert_open(self, what: str) -> None:
        if what == "step" and self._infos is None:
            raise RuntimeError(
                f"step was called on a {type(self).__name__} whose envs are not running. "
                "Fix: td = env.reset(), which makes them, then write an action into td, then env.step(td)."
            )
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # Options ------------------------------------------------------------------------------------------------------

    def update_kwargs(self, kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Change keyword arguments that envs are made with: new values for all envs, or a list with some for each.

        Raises:
            RuntimeError: If the envs are running.
            ValueError: If a list does not have a value for each env.
        """
        self._assert_not_running("update_kwargs changes what envs are made with")
        new = kwargs_each(kwargs, self.num_workers)
        self._kwargs = [{**old, **update} for old, update in zip(self._kwargs, new, strict=True)]

    def configure_parallel(  # type: ignore[override]  # other envs refuse any option
        self,
        *,
        use_buffers: bool | None = None,
        shared_memory: bool | None = None,
        memmap: bool | None = None,
        mp_start_method: str | None = None,
        num_threads: int | None = None,
        num_sub_threads: int | None = None,
        non_blocking: bool | None = None,
        daemon: bool | None = None,
        shutdown_timeout: float | None = None,
    ) -> Self:
        """Change options of the constructor, except those that are None, before the envs are made. Returns the env.

        Raises:
            RuntimeError: If the envs are running.
            ValueError: As for the constructor.

        Example:
            >>> from rlnb.envs import GymEnv, ParallelEnv
            >>> env = ParallelEnv(2, lambda: GymEnv("CartPole-v1")).configure_parallel(num_threads=1)
        """
        self._assert_not_running("configure_parallel changes how envs are made")
        given = dict(
            use_buffers=use_buffers, shared_memory=shared_memory, memmap=memmap, mp_start_method=mp_start_method,
            num_threads=num_threads, num_sub_threads=num_sub_threads, non_blocking=non_blocking,
            shutdown_timeout=shutdown_timeout,
        )  # fmt: skip
        self._configure({name: value for name, value in given.items() if value is not None})
        return self

    def _assert_not_running(self, what: str) -> None:
        if self._infos is not None:
            raise RuntimeError(
                f"{what}, and those of this {type(self).__name__} are running. "
                "Fix: call it before the first reset, or call env.close() first."
            )

    def _configure(self, options: dict[str, Any]) -> None:
        """Set the options that this class reads."""
        shutdown_timeout = options.get("shutdown_timeout", self._shutdown_timeout)
        check_batch_options(type(self).__name__, False, False, shutdown_timeout)
        self._shutdown_timeout = shutdown_timeout
        self.use_buffers = options.get("use_buffers", self.use_buffers)
        self._memmap = options.get("memmap", self._memmap)
        self.non_blocking = options.get("non_blocking", self.non_blocking)

    def _auto_resetting(self, replace: bool | None) -> EnvBase:
        """Let each env of the batch reset itself."""
        self._fns = [functools.partial(_make_auto_resetting, fn, replace) for fn in self._fns]
        return self

    # Specs, batch size and device ---------------------------------------------------------------------------------

    @property
    def _specs(self) -> dict[str, Composite]:
        self.start()
        return self._stored_specs

    @_specs.setter
    def _specs(self, specs: dict[str, Composite]) -> None:
        if self._infos is not None:
            self._stored_specs = specs

    def _set_spec(self, name: str, spec: TensorSpec, default_key: str) -> None:
        if "_given_device" in self.__dict__:
            super()._set_spec(name, spec, default_key)
            self._unchecked = set()

    @property  # type: ignore[misc]  # the envs determine it
    def batch_size(self) -> torch.Size:
        """Number of envs, followed by the batch size of each env."""
        self.start()
        return self._batch_size

    shape = batch_size

    @property  # type: ignore[misc]  # it is fixed once the batch is made
    def device(self) -> torch.device | None:
        """Device of the returned tensors."""
        if self._given_device is None:
            self.start()
        return self._device

    @property
    def batch_locked(self) -> bool:  # type: ignore[override]  # an attribute of other envs
        """True: the number of envs is fixed."""
        return True

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the data of the batch to a device; the envs stay where they are."""
        super().to(*args, **kwargs)
        self._given_device = self._device
        return self

    def __len__(self) -> int:
        return self.num_workers

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_workers={self.num_workers})"

    # Step and reset -----------------------------------------------------------------------------------------------

    def _is_complete(self, data: TensorDictBase, call: str) -> bool:
        return True  # each env checks its own data

    def _check_actions(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not isinstance(tensordict, LazyStackedTensorDict):
            return super()._check_actions(tensordict)
        assert self._infos is not None
        # The actions of the envs may differ in shape, so that no tensor can hold them.
        for row, info in zip(tensordict.unbind(0), self._infos, strict=True):
            specs = info.specs["input_spec", "full_action_spec"]
            for key in self.action_keys:
                action = row.get(key, None)
                if action is None:
                    raise KeyError(errors.no_action(key, row))
                fit_action(key, specs[key], action, specs[key].shape)
        return tensordict

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random action for each env into ``tensordict``, or into a new TensorDict.

        Envs with a ``rand_action`` that does more than sample from the spec, such as to draw only legal actions, draw
        their actions themselves.
        """
        self.start()
        if not self._draws:
            return super().rand_action(tensordict)
        rows: list[Any] = [None] * self.num_workers
        if tensordict is not None:
            rows = list(self._split(tensordict, [*self.observation_keys, *self.state_keys, *self.done_keys]))
        drawn = self._call_each("rand_action", [((row,), {}) for row in rows])
        actions = self._join([found.select(*self.action_keys) for found in drawn])
        return actions if tensordict is None else tensordict.update(actions)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = entry(tensordict, "_step")
        if mask is not None:
            which = self._selected(mask)
            if len(which) < self.num_workers:
                return self._step_selected(tensordict, which)
        found = self._step_some(tensordict, range(self.num_workers))
        if found is None:
            return self._block_data("step")
        return self._join(list(found.values()))

    def _partial_step(self, tensordict: TensorDictBase, partial: torch.Tensor) -> TensorDictBase:
        return self._step(tensordict)  # it reads "_step" itself

    def _selected(self, mask: Any) -> list[int]:
        """Read from a "_step" mask which envs to step."""
        want = tuple(self._batch_size)
        if isinstance(mask, torch.Tensor):
            got = f"shape {tuple(mask.shape)} and dtype {mask.dtype}"
            if mask.dtype == torch.bool and tuple(mask.shape) in (want, (*want, 1)):
                rows = mask.reshape(self.num_workers, -1).cpu()
                some = rows.any(-1)
                if torch.equal(some, rows.all(-1)):
                    return some.nonzero().flatten().tolist()
                got = "both values for one env"
        else:
            got = f"a {type(mask).__name__}"
        raise ValueError(
            f"The mask '_step', which selects the envs to step, must be a boolean tensor of shape {want}, True or "
            f"False for all of an env, got {got}. Fix: td['_step'] = torch.tensor([True, False, ...])."
        )

    def _step_some(self, tensordict: TensorDictBase, which: Sequence[int]) -> dict[int, TensorDictBase] | None:
        """Step some of the envs. Return their data, or None if it is in the block."""
        if self._block is None:
            rows = self._split(tensordict, self._input_keys())
            return self._step_envs(which, {i: rows[i] for i in which})
        self._write_inputs(tensordict)
        return self._step_envs(which, None)

    def _step_selected(self, tensordict: TensorDictBase, which: list[int]) -> TensorDictBase:
        """Step some of the envs. The others keep their observations and end signals, and have a reward of zero."""
        assert self._infos is not None
        found = self._step_some(tensordict, which) if which else {}
        if found is None:
            stepped = self._block_data("step")
            found = {i: stepped[i] for i in which}
        rows = []
        for i, row in enumerate(tensordict.unbind(0)):
            if i in found:
                rows.append(found[i])
                continue
            kept = TensorDict({}, self._batch_size[1:], device=row.device)
            for spec in self._infos[i].specs["output_spec"].values():
                kept.update(spec.zero())
            rows.append(kept.update(row.select(*self.observation_keys, *self.done_keys, strict=False).clone()))
        return self._join(rows)

    def _input_keys(self) -> list[NestedKey]:
        """Keys that a step passes on: actions, and for stateless envs everything that they have returned."""
        if "input_keys" not in self._cache:
            keys = list(self.action_keys)
            if self.state_keys:
                keys = list(dict.fromkeys([*keys, *self.state_keys, *self.observation_keys, *self.done_keys]))
            self._cache["input_keys"] = keys
        return self._cache["input_keys"]

    def _reset_where(self, tensordict: TensorDictBase | None, masks: Masks, **kwargs: Any) -> TensorDictBase:
        if not self._lazy or tensordict is None:
            return super()._reset_where(tensordict, masks, **kwargs)
        # Masks cannot be applied to data that changes its shape: the envs that are reset get new rows.
        found = self._reset_some(tensordict, masks, **kwargs)
        assert found is not None
        rows = [row.exclude(*self.reset_keys) for row in tensordict.unbind(0)]
        return lazy_stack([rows[i].update(found[i]) if i in found else rows[i] for i in range(self.num_workers)], 0)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        masks = {} if tensordict is None else reset_masks(self, tensordict)
        found = self._reset_some(tensordict, masks, **kwargs)
        if found is None:
            return self._block_data("reset")
        # Rows that are not reset are not read. They may not be those of ``tensordict``, whose entries a transform
        # around the batch may have given other shapes.
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
        """Reset the envs that masks select. Return their data, or None if it is in the block."""
        each = kwargs_each(list_of_kwargs, self.num_workers, "list_of_kwargs")
        state: list[TensorDictBase | None] = [None] * self.num_workers
        if tensordict is not None and self.state_keys:
            state = list(self._split(tensordict, self.state_keys))
        which: dict[int, ResetArguments] = {}
        for i in range(self.num_workers):
            rows = {level: mask[i] for level, mask in deciding(masks).items()}
            if rows and not any(bool(mask.any()) for mask in rows.values()):
                continue
            given = state[i]
            # A stateless env starts a new episode if its data has a mask; otherwise it starts from the data.
            if given is not None or not all(bool(mask.all()) for mask in rows.values()):
                given = TensorDict({}, self._batch_size[1:]) if given is None else given
                for level, mask in rows.items():
                    given.set(as_key((*level, "_reset")), mask)
            which[i] = given, {**kwargs, **each[i]}
        return self._reset_envs(which)

    # Splitting and joining data -----------------------------------------------------------------------------------

    def _split(self, tensordict: TensorDictBase, keys: list[NestedKey]) -> list[TensorDictBase]:
        """Split entries into a TensorDict for each env, on its device."""
        assert self._infos is not None
        if isinstance(tensordict, LazyStackedTensorDict):
            rows = [row.select(*keys, strict=False) for row in tensordict.unbind(0)]
        else:
            values = {key: value for key in keys if (value := entry(tensordict, key)) is not None}
            if self.state_keys:
                values = {key: value for key, value in values.items() if self._has_spec_shape(key, value)}
            columns = {key: value.unbind(0) for key, value in values.items()}
            rows = [
                fast_tensordict(_nest({key: column[i] for key, column in columns.items()}), self._batch_size[1:])
                for i in range(self.num_workers)
            ]
        return [row.to(info.device) if info.device else row for row, info in zip(rows, self._infos, strict=True)]

    def _has_spec_shape(self, key: NestedKey, value: Any) -> bool:
        """Whether the envs can read an entry, which a transform around the batch may have given another shape."""
        if "input_shapes" not in self._cache:
            specs = self._specs.values()
            self._cache["input_shapes"] = {key: spec[key].shape for spec in specs for key in spec.keys(True, True)}
        shape = self._cache["input_shapes"].get(key)
        return shape is None or -1 in shape or value.shape == shape

    def _block_data(self, what: str) -> TensorDictBase:
        """Copy the last "step" or "reset" of the envs from the block into a new TensorDict."""
        assert self._block is not None
        row = self._block.next_row(0) if what == "step" else self._block.root_row(0)
        entries = _nest({key: tensor.clone() for key, tensor in row.items()})
        if self._device is None or self._device.type == "cpu":
            return self._as_tensordict(entries, (), self._device)
        return self._as_tensordict(entries, (), None).to(self._device, non_blocking=self.non_blocking)

    def _as_tensordict(self, entries: dict[str, Any], path: tuple[str, ...], device: torch.device | None) -> TensorDict:
        """Convert nested dictionaries to TensorDicts with the batch sizes of the specs."""
        for name, value in entries.items():
            if type(value) is dict:
                entries[name] = self._as_tensordict(value, (*path, name), device)
        return fast_tensordict(entries, self._nested_sizes.get(path, self._batch_size), device)

    def _join(self, data: list[TensorDictBase]) -> TensorDictBase:
        """Stack the data of the envs."""
        joined: TensorDictBase = lazy_stack(data, 0) if self._lazy else stack_steps(data, 0)
        return joined if self._device is None else joined.to(self._device)

    # Rollouts of rows, see rlnb.envs.rows -------------------------------------------------------------------------

    @property
    def _fills_rows(self) -> bool:
        on_cpu = self.device is None or self.device.type == "cpu"
        return on_cpu and self._row_mode and not self._draws and not self.run_type_checks

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        """Shape (without the batch of workers) and dtype of the entries of resets, and of those of steps alone."""

        def infos(*names: str) -> dict[NestedKey, LeafInfo]:
            leaves = [(key, self._specs[name][key]) for name in names for key in self._specs[name].keys(True, True)]
            return {key: (spec.shape[1:], spec.dtype) for key, spec in leaves}

        if self._row_mode:
            assert self._infos is not None
            first = self._infos[0]
            return dict(first.root or {}), dict(first.next_only or {})
        return infos("full_observation_spec", "full_done_spec"), infos("full_reward_spec")

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return drawn_actions(self.full_action_spec[self.action_key], actions)

    def _native_action(self, action: torch.Tensor) -> np.ndarray:
        return native_action(self.full_action_spec[self.action_key], action)

    def _action_array(self) -> np.ndarray:
        """Allocate an array for the actions of all envs, in the form of the backend."""
        state = torch.get_rng_state()
        try:
            example = self._drawn_actions(self.full_action_spec[self.action_key].rand((1,)))[0]
        finally:
            torch.set_rng_state(state)
        return np.zeros_like(np.asarray(example))

    # Attributes, methods and states of the envs -------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_given_device" not in self.__dict__:
            return super().__getattr__(name)
        self.start()
        return self._attribute(name)

    def _attribute(self, name: str) -> Any:
        """Read an attribute of each env. The name may have dots."""
        values = self._read_each(name)
        if all(isinstance(value, Method) for value in values):
            return lambda *args, **kwargs: self._call_each(name, [(args, kwargs)] * self.num_workers)
        return values if all(isinstance(value, PLAIN) for value in values) else EnvValues(self, name, values)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the envs and the random actions. Each env gets what ``set_seed`` of the env before it returns.

        Returns the seed for the next env of a chain. With ``static_seed`` all envs get ``seed``, which is returned.
        """
        super().set_seed(seed, static_seed)
        after = seed
        for i in range(self.num_workers):
            after = self._call_one(i, "set_seed", ((after,), {"static_seed": static_seed}))
        return after

    def _set_seed(self, seed: int | None) -> None:
        """Do nothing: :meth:`set_seed` seeds the envs."""

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # no overloads
        """Return the state dict of each env, as "worker0" and so on. The arguments are those of ``torch.nn.Module``."""
        self.start()
        states = self._call_each("state_dict", [(args, kwargs)] * self.num_workers)
        return {f"worker{i}": state for i, state in enumerate(states)}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        """Load the result of :meth:`state_dict`. Further arguments are those of ``torch.nn.Module``.

        Raises:
            KeyError: If the state dict of an env is missing. Nothing is loaded then.
        """
        self.start()
        missing = [f"worker{i}" for i in range(self.num_workers) if f"worker{i}" not in state_dict]
        if missing:
            raise KeyError(
                f"The state dict of this batch must have {missing}, got {sorted(map(str, state_dict))}. "
                "Likely cause: it was saved by a smaller batch."
            )
        states = [((state_dict[f"worker{i}"], *args), kwargs) for i in range(self.num_workers)]
        self._call_each("load_state_dict", states)

    def __getitem__(self, index: Any) -> BatchSlice:
        """Select some of the envs, as a batch that steps the same envs. They end with this batch.

        The index is an integer, a slice, a list of integers or a mask. An integer gives a batch of one env.

        Raises:
            IndexError: If there are no such envs.

        Example:
            >>> from rlnb.envs import GymEnv, SerialEnv
            >>> env = SerialEnv(3, lambda: GymEnv("Pendulum-v1"))
            >>> env[1:].rollout(5).batch_size
            torch.Size([2, 5])
        """
        n, which = self.num_workers, []
        with contextlib.suppress(IndexError, TypeError, ValueError, RuntimeError):
            which = [] if index is None else torch.arange(n)[index].reshape(-1).tolist()
        if not which:
            raise IndexError(
                f"The index of a batch of {n} envs must be an integer from {-n} to {n - 1}, or a slice, list or mask "
                f"that selects at least one env, got {index!r}."
            )
        return BatchSlice(self, which)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[BatchTrace]:
        """Record each reset and step in the trace that it yields: what each env does and when.

        Example:
            >>> from rlnb.envs import GymEnv, SerialEnv
            >>> env = SerialEnv(2, lambda: GymEnv("Pendulum-v1"))
            >>> env.start()
            >>> with env.tracing() as trace:
            ...     _ = env.rollout(5)
            >>> trace
            BatchTrace(SerialEnv, num_workers=2, steps=5, resets=1)
        """
        before, self._trace = self._trace, BatchTrace(type(self).__name__, self.num_workers)
        try:
            yield self._trace
        finally:
            self._trace = before

    def _record(self, what: str, which: Sequence[int], start: int, moments: Any) -> None:
        """Add a reset or step to the trace, if there is one."""
        if self._trace is not None:
            stop = time.perf_counter_ns()
            times = np.array(moments)  # some may be left from an earlier reset or step
            self._trace.turns.append(Turn(what, tuple(which), start, stop, np.where(times >= start, times, 0)))


class BatchSlice(BatchedEnvBase):
    """Some of the envs of a batch, by index, stepped as a batch. Indexing a batch makes it: ``env[1:]``.

    Example:
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> SerialEnv(3, lambda: GymEnv("Pendulum-v1"))[1:]
        SerialEnv(num_workers=3)[[1, 2]]
    """

    _batch: BatchedEnvBase
    _which: list[int]

    def __init__(self, batch: BatchedEnvBase, which: list[int]) -> None:
        # Not by setattr: torch.nn.Module would register the batch as a submodule of this env.
        self.__dict__["_batch"], self._which = batch, which
        fns = [batch._fns[i] for i in which]
        super().__init__(len(which), fns, device=batch._given_device, use_buffers=False)

    def _make_envs(self) -> list[EnvInfo]:
        self._batch.start()
        assert self._batch._infos is not None
        return [self._batch._infos[i] for i in self._which]

    def _end_envs(self) -> None:
        """Do nothing: the envs end with the batch."""

    def _connect(self, block: TEDBlock | None) -> None:
        """Do nothing: the envs are connected to the batch."""

    @property
    def is_closed(self) -> bool:
        """Whether this slice has not started or was closed, or the batch is closed."""
        return self._infos is None or self._batch.is_closed

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        """Ignored: it follows from whether the envs run."""

    def start(self) -> None:
        """Make the envs of the batch, unless they run already."""
        if self._batch.is_closed:
            self._infos = None
        super().start()

    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        """Do nothing: the batch writes them."""

    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        batch, rows = self._batch, {self._which[i]: row for i, row in (inputs or {}).items()}
        blank = next(iter(rows.values()))  # for the other envs, whose rows are not read
        given = lazy_stack([rows.get(i, blank) for i in range(batch.num_workers)], 0)
        found = batch._step_some(given if batch._lazy else given.contiguous(), list(rows))
        if found is None:
            data = batch._block_data("step")
            found = {i: data[i] for i in rows}
        return {i: found[self._which[i]] for i in which}

    def _reset_envs(self, which: dict[int, ResetArguments]) -> dict[int, TensorDictBase] | None:
        batch = self._batch
        found = batch._reset_envs({self._which[i]: arguments for i, arguments in which.items()})
        if found is None:
            data = batch._block_data("reset")
            found = {self._which[i]: data[self._which[i]] for i in which}
        return {i: found[self._which[i]] for i in which}

    def _read_each(self, name: str) -> list[Any]:
        values = self._batch._read_each(name)
        return [values[i] for i in self._which]

    def _call_each(self, name: str, arguments: list[Arguments]) -> list[Any]:
        return [self._call_one(i, name, given) for i, given in enumerate(arguments)]

    def _call_one(self, i: int, name: str, arguments: Arguments) -> Any:
        return self._batch._call_one(self._which[i], name, arguments)

    def __repr__(self) -> str:
        return f"{self._batch!r}[{self._which}]"


def _nest(entries: Mapping[NestedKey, Any]) -> dict[str, Any]:
    """Convert entries by nested key to nested dictionaries."""
    found: dict[str, Any] = {}
    for key, value in entries.items():
        *path, name = as_tuple(key)
        level = found
        for part in path:
            level = level.setdefault(part, {})
        level[name] = value
    return found


def _make_auto_resetting(make: MakeEnv, replace: bool | None, **kwargs: Any) -> Any:
    env = make(**kwargs)
    return env._auto_resetting(replace) if isinstance(env, EnvBase) else env


# Arguments ------------------------------------------------------------------------------------------------------------


def one_each(given: Any, n: int, name: str, of: str = "envs") -> list[Any]:
    """Expand an argument, a list with a value for each env or a single value for all, to a list of length ``n``."""
    if not isinstance(given, (list, tuple)):
        return [given] * n
    if len(given) != n:
        raise ValueError(
            f"{name} must have one value for each of the {n} {of}, got a list of {len(given)}. "
            f"Fix: a list of that length, or a single value for all {of}."
        )
    return list(given)


def kwargs_each(given: Any, n: int, name: str = "create_env_kwargs") -> list[dict[str, Any]]:
    """Expand keyword arguments, a mapping or a list with one for each env, to a new dictionary for each env."""
    each = one_each({} if given is None else given, n, name)
    for i, kwargs in enumerate(each):
        if not isinstance(kwargs, Mapping):
            raise TypeError(f"{name} must hold keyword arguments by name, got a {type(kwargs).__name__} for env {i}.")
    return [dict(kwargs) for kwargs in each]


def check_batch_options(name: str, pin_memory: Any, allow_step_when_done: Any, shutdown_timeout: Any) -> None:
    """Raise ValueError if an option of a batch has a value that is not supported."""
    if pin_memory:
        raise ValueError(
            f"{name}(pin_memory=True) is not supported, and deprecated in TorchRL: the memory that the envs write to "
            "is shared between processes and not pinned. Fix: leave pin_memory out, and pin what is sent to a GPU: "
            "batch.pin_memory()."
        )
    if allow_step_when_done:
        raise ValueError(
            f"{name}(allow_step_when_done=True) is not supported, and deprecated in TorchRL: an env that is done must "
            "be reset before its next step. Fix: leave allow_step_when_done out, and use env.step_and_maybe_reset(td)."
        )
    number = isinstance(shutdown_timeout, (int, float)) and not isinstance(shutdown_timeout, bool)
    if not number or not shutdown_timeout > 0:
        raise ValueError(
            f"{name}(shutdown_timeout=...) must be a positive number of seconds, got {shutdown_timeout!r}. "
            "Fix: shutdown_timeout=10.0."
        )
