"""The life of a batch: its envs are made when they are needed, and what they are follows from them."""

from __future__ import annotations

import functools
import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, TensorSpec
from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.base import EnvBase
from rlnb.envs.batched import faults
from rlnb.envs.batched.arguments import kwargs_each, one_each
from rlnb.envs.batched.drivers import EnvInfo, MakeEnv
from rlnb.envs.batched.joining import join_specs, varies, without_numpy_dtype


class BatchLife(EnvBase):
    """The start, the end and the specs of a batch; the base of :class:`~rlnb.envs.batched.batched_env.BatchedEnvBase`.

    Args:
        num_workers: how many envs.
        create_env_fn: makes an env; or a list of functions, one for each env, for different tasks.
        create_env_kwargs: keyword arguments for ``create_env_fn``; or a list of them, one for each env.
        share_individual_td: give the data of each env in a TensorDict of its own, in a lazy stack. Default: only
            where the data of the envs differs in shape.
        shared_memory: not read here; see :class:`ParallelEnv`.
        memmap: not read here; see :class:`ParallelEnv`.
        policy_proof: accepted and not read: which entries a step gives follows from the specs.
        device: where the data of the batch goes. Default: that of the envs.
        non_blocking: whether data goes to ``device`` without waiting for it.
        use_buffers: whether data goes through memory that is allocated once. Default: yes, unless shapes vary.
        pin_memory: must be False: the shared memory of the envs is not pinned.
        allow_step_when_done: must be False: pass ``allow_done_after_reset`` to the envs that need it.
        metadata_from_workers: accepted and not read: specs always come from the envs themselves.
        consolidate: accepted and not read: it changes how TorchRL packs messages, and no data.
        daemon: accepted and not read: workers always end with this process, and may have processes of their own.
        shutdown_timeout: seconds that :meth:`close` gives idle workers to close their envs, before it kills them.

    Raises:
        ValueError: if ``num_workers`` is not positive, a list has another length, ``pin_memory`` or
            ``allow_step_when_done`` is True, or ``shutdown_timeout`` is not a positive number.
        TypeError: if ``create_env_fn`` cannot be called.
    """

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
        if unknown:
            known = {*inspect.signature(BatchLife.__init__).parameters, *inspect.signature(type(self)).parameters}
            known -= {"self", "unknown", "kwargs", "args", *unknown}
            raise TypeError(faults.no_option(type(self).__name__, next(iter(unknown)), known))
        if isinstance(num_workers, bool) or not hasattr(num_workers, "__index__") or num_workers < 1:
            raise ValueError(f"num_workers is how many envs there are, a positive integer, and is {num_workers!r}.")
        # First of all: what torch.nn.Module and EnvBase ask for goes through these.
        self.num_workers, self._infos, self._owner, self._block = int(num_workers), None, None, None
        self._stored_specs = {}
        faults.check_options(type(self).__name__, pin_memory, allow_step_when_done, shutdown_timeout)
        self._shutdown_timeout = shutdown_timeout
        self._fns = one_each(create_env_fn, num_workers, "create_env_fn")
        self._kwargs = kwargs_each(create_env_kwargs, num_workers)
        for fn in self._fns:
            if isinstance(fn, EnvBase) or not callable(fn):  # an env can be called, too
                raise TypeError(faults.no_env_function(fn))
        super().__init__(device, ())
        self._given_device, self.non_blocking = self._device, non_blocking
        self.share_individual_td, self.use_buffers, self._memmap = share_individual_td, use_buffers, memmap

    num_workers: int
    _infos: list[EnvInfo] | None
    _owner: int | None
    _block: TEDBlock | None
    _stored_specs: dict[str, Composite]

    #: Whether data goes through a block even where the envs cannot fill its rows themselves.
    _block_for_all = False

    #: Whether the envs run in processes of their own, which are children of the process that started them alone.
    _has_processes = False

    # The envs, for subclasses -------------------------------------------------------------------------------------

    @abstractmethod
    def _make_envs(self) -> list[EnvInfo]:
        """Make the envs and describe them."""

    @abstractmethod
    def _end_envs(self) -> None:
        """End the envs; nothing happens if there are none."""

    @abstractmethod
    def _connect(self, block: TEDBlock | None) -> None:
        """Let the envs write to the rows of the block, or return their data where there is none."""

    @abstractmethod
    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        """Step some envs; without a block, with the inputs that are given, and return the results."""

    @abstractmethod
    def _reset_envs(
        self, which: dict[int, tuple[TensorDictBase | None, Mapping[str, Any]]]
    ) -> dict[int, TensorDictBase] | None:
        """Reset some envs, each with its own entries and keyword arguments; without a block, return the data."""

    @abstractmethod
    def _ask(self, name: str, arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] | None) -> list[Any]:
        """Read an attribute of each env or, with arguments for each, call it.

        Of an attribute that can be called the answer is a :class:`~rlnb.envs.batched.drivers.Method`.
        """

    def _auto_resetting(self, replace: bool | None) -> EnvBase:
        """Each env of the batch resets itself."""
        self._fns = [functools.partial(_make_auto_resetting, fn, replace) for fn in self._fns]
        return self

    # Start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the envs, if that has not happened yet. What needs them calls it by itself.

        Raises:
            RuntimeError: if an env cannot be made, or the envs do not fit together.
        """
        if self._infos is not None:
            if self._has_processes and self._owner != os.getpid():
                raise RuntimeError(faults.forked(self))
            return
        self._owner = os.getpid()
        try:
            infos = self._make_envs()
            self._settle(infos)
        except BaseException:
            self._end_envs()
            self._infos = None
            raise

    def _settle(self, infos: list[EnvInfo]) -> None:
        """Join the specs of the envs, and lay out the memory for their data."""
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
        self._nested_sizes = _nested_sizes(specs)
        self._unchecked = set()  # each env checks its own first data
        self.empty_cache()
        lazy = self.share_individual_td or any(varies(spec) for spec in specs.values())
        if self.use_buffers and lazy:
            raise RuntimeError(faults.no_buffers(specs))
        self._lazy = bool(lazy)
        self._row_mode = not lazy and self.use_buffers is not False and _fill_the_same_rows(infos)
        self._infos = infos
        self._draws = any(info.draws for info in infos)
        with_block = self._row_mode or (self._block_for_all and not lazy and self.use_buffers is not False)
        if with_block and (unknown := without_numpy_dtype(specs)):
            if self.use_buffers:
                raise RuntimeError(faults.no_numpy_dtype(unknown))
            with_block = self._row_mode = False  # such data goes through messages
        self._block = self._new_block() if with_block else None
        self._connect(self._block)

    def _new_block(self) -> TEDBlock:
        """A block of one row, which holds the last reset and the last step."""
        root, next_only = self._leaf_infos()
        return TEDBlock(root, next_only, 1, (self.num_workers,), self._allocate)

    _allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray] = staticmethod(np.zeros)  # type: ignore[assignment]  # numpy overloads it

    def _leaf_infos(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        """Shape (without the batch of workers) and dtype of what resets and steps give."""

        def infos(*names: str) -> dict[NestedKey, LeafInfo]:
            leaves = [(key, self._specs[name][key]) for name in names for key in self._specs[name].keys(True, True)]
            return {key: (spec.shape[1:], spec.dtype) for key, spec in leaves}

        if self._row_mode:
            assert self._infos is not None
            first = self._infos[0]
            return dict(first.root or {}), dict(first.next_only or {})
        return infos("full_observation_spec", "full_done_spec"), infos("full_reward_spec")

    def close(self, *, raise_if_closed: bool = False) -> None:
        """End the envs. The next reset makes new ones.

        Args:
            raise_if_closed: make it an error if there are none.

        Raises:
            RuntimeError: if asked for, and nothing is running.
        """
        if self._infos is None:
            if raise_if_closed:
                raise RuntimeError(f"{type(self).__name__}.close was called, and its envs are not running.")
            return
        try:
            if self._owner == os.getpid() or not self._has_processes:
                self._end_envs()
        finally:
            self._infos = None
            self._block = None

    @property
    def is_closed(self) -> bool:
        """Whether the envs are not running. They are made by the first reset, or by :meth:`start`."""
        return self._infos is None

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        """Follows from whether the envs run."""

    def _assert_open(self, what: str) -> None:
        if what == "step" and self._infos is None:
            raise RuntimeError(faults.not_running(self))
        self.start()

    def __enter__(self) -> BatchLife:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.num_workers

    # Specs --------------------------------------------------------------------------------------------------------

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

    @property  # type: ignore[misc]  # the envs decide: nobody sets it
    def batch_size(self) -> torch.Size:
        """The number of envs, then the batch size of each."""
        self.start()
        return self._batch_size

    shape = batch_size

    @property  # type: ignore[misc]  # it is fixed once the batch is made
    def device(self) -> torch.device | None:
        """Where the data of the batch lives."""
        if self._given_device is None:
            self.start()
        return self._device

    @property
    def batch_locked(self) -> bool:  # type: ignore[override]  # an attribute of other envs
        """True: there are as many envs as there are."""
        return True

    def update_kwargs(self, kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Replace keyword arguments that envs are made with.

        Args:
            kwargs: new values for all envs, or a list of such mappings, one for each env.

        Raises:
            RuntimeError: if the envs were made already.
            ValueError: if a list has another length than the batch.
        """
        if self._infos is not None:
            raise RuntimeError(faults.kwargs_too_late(self))
        new = kwargs_each(kwargs, self.num_workers)
        self._kwargs = [{**old, **update} for old, update in zip(self._kwargs, new, strict=True)]

    def configure_parallel(  # type: ignore[override]  # other envs refuse whatever they are given
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
    ) -> BatchLife:
        """Change options of the constructor before the envs are made.

        Args:
            use_buffers: see the constructor, as for all arguments; None leaves an option as it is.
            shared_memory: as above.
            memmap: as above.
            mp_start_method: as above.
            num_threads: as above.
            num_sub_threads: as above.
            non_blocking: as above.
            daemon: as above.
            shutdown_timeout: as above.

        Returns:
            The env.

        Raises:
            RuntimeError: if the envs were made already.
            ValueError: as for the constructor.

        Example:
            >>> from rlnb.envs import GymEnv, ParallelEnv
            >>> env = ParallelEnv(2, lambda: GymEnv("CartPole-v1")).configure_parallel(num_threads=1)
        """
        if self._infos is not None:
            raise RuntimeError(
                f"configure_parallel changes how the envs of a {type(self).__name__} are made, and they were made. "
                "Fix: call it before the first reset, or call env.close() first."
            )
        given = dict(
            use_buffers=use_buffers, shared_memory=shared_memory, memmap=memmap, mp_start_method=mp_start_method,
            num_threads=num_threads, num_sub_threads=num_sub_threads, non_blocking=non_blocking,
            shutdown_timeout=shutdown_timeout,
        )  # fmt: skip
        self._configure({name: value for name, value in given.items() if value is not None})
        return self

    def _configure(self, options: dict[str, Any]) -> None:
        """Set options of the constructor that this class reads."""
        patience = options.get("shutdown_timeout", self._shutdown_timeout)
        faults.check_options(type(self).__name__, False, False, patience)
        self._shutdown_timeout = patience
        self.use_buffers = options.get("use_buffers", self.use_buffers)
        self._memmap = options.get("memmap", self._memmap)
        self.non_blocking = options.get("non_blocking", self.non_blocking)

    def to(self, *args: Any, **kwargs: Any) -> BatchLife:
        """Move the data of the batch to a device; the envs stay where they are.

        Args:
            *args: as for ``torch.nn.Module.to``.
            **kwargs: as for ``torch.nn.Module.to``.

        Returns:
            The env.
        """
        super().to(*args, **kwargs)
        self._given_device = self._device
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_workers={self.num_workers})"


def _make_auto_resetting(make: MakeEnv, replace: bool | None, **kwargs: Any) -> Any:
    env = make(**kwargs)
    return env._auto_resetting(replace) if isinstance(env, EnvBase) else env


def _nested_sizes(specs: Mapping[str, Composite]) -> dict[tuple[str, ...], torch.Size]:
    """Find the batch sizes of nested TensorDicts, which may have more dimensions than the root."""
    found: dict[tuple[str, ...], torch.Size] = {}
    for spec in specs.values():
        for key in spec.keys(True, False):
            if isinstance(spec[key], Composite):
                found[as_tuple(key)] = spec[key].shape
    return found


def _fill_the_same_rows(infos: list[EnvInfo]) -> bool:
    first = infos[0]
    return first.root is not None and all((i.root, i.next_only) == (first.root, first.next_only) for i in infos)


__all__ = ["BatchLife"]
