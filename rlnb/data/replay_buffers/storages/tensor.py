"""Tensor storages: items as columns of contiguous memory, given by the user or allocated on the first write."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.checkpointers.column import TensorStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.files import SENSELESS
from rlnb.data.replay_buffers.columns import AnyColumn, Column, ObjectColumn, RowArrays, new_memory, reshape_objects
from rlnb.data.replay_buffers.forms.base import Form, Leaf
from rlnb.data.replay_buffers.forms.structure import STORABLE, read_shape
from rlnb.data.replay_buffers.forms.tree_form import form_from, form_of
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.ring import Ring, finish
from rlnb.data.replay_buffers.stacking import stack_leaves
from rlnb.data.replay_buffers.storages.base import Rows, Storage, refuse_compilable
from rlnb.data.specs.normalize import as_device
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple


class TensorStorage(Storage):
    """A storage in memory that the user gives, and the base class of all storages in contiguous memory.

    It has one column for each leaf of the data. All of the given memory counts as filled, and writing starts at its
    beginning. A process that is started with memory of ``tensor.share_memory_()`` sees what others write there, but has
    a cursor of its own.

    The memory defines keys, shapes and dtypes; in subclasses the first data written does, and with ``ndim`` above 1
    also the sizes of the other dimensions. Data that differs is rejected before anything is written.

    A subclass implements :meth:`_allocate` for special memory, and :meth:`_reserve` if memory can run out later.

    Args:
        storage: a tensor, TensorDict or PyTree whose leaves lead with the dimensions that count items. It is written
            to in place if it is contiguous and on ``device``, and copied otherwise.
        max_size: number of items to use, the first ones. Default: all.
        device: device of the memory; ``"auto"``: that of ``storage``.
        ndim: number of leading dimensions that count items; the first one is time.
        compilable: accepted for code written for TorchRL; only False, see :func:`refuse_compilable`.

    Attributes:
        form: keys, shapes and dtypes of the items; None before the first write.

    Raises:
        TypeError: If no memory is given.
        ValueError: If ``max_size`` is larger than the memory, or the leaves lead with different sizes.
        NotImplementedError: If ``compilable`` is True.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> container = torch.zeros(10, 3, 64, 64, dtype=torch.uint8)
        >>> rb = ReplayBuffer(storage=TensorStorage(container))
        >>> rb.add(torch.full((3, 64, 64), 255, dtype=torch.uint8))
        0
        >>> len(rb), container[0, 0, 0, 0].item()
        (10, 255)
    """

    _default_checkpointer = TensorStorageCheckpointer
    device: torch.device | None

    def __init__(
        self,
        storage: Any,
        max_size: int | None = None,
        *,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        compilable: bool = False,
    ) -> None:
        refuse_compilable(compilable)
        if storage is None or isinstance(storage, (int, float, str)):
            raise TypeError(
                "TensorStorage takes the memory to write to, a tensor, TensorDict or PyTree of tensors, and got: "
                f"{type(storage).__name__}. Fix: LazyTensorStorage(1000), which allocates memory for 1000 items."
            )
        lead = form_of(storage, 0).lead(storage, ndim)
        size = lead.numel() if max_size is None else max_size
        self._begin(size, device, ndim)
        others = tuple(lead[1:])
        if size > lead.numel():
            raise ValueError(
                f"max_size is {size}, and the storage given has room for {list(lead)} items. Fix: leave max_size out."
            )
        rows = -(-size // max(math.prod(others), 1))
        form = form_of(storage, ndim)
        leaves = form.take_apart(storage, lead)
        self.device = self.device or device_of(storage)
        columns: list[AnyColumn] = []
        for leaf, values in zip(form.leaves, leaves, strict=True):
            if leaf.dtype is None:
                objects = ObjectColumn((rows, *others))
                objects.put(0, values[:rows])
                columns.append(objects)
            else:
                columns.append(Column(values.detach()[:rows].to(self.device).contiguous(), ndim))
        self.ring = self._make_ring(rows)
        self._adopt(form, columns, others)
        self.ring.jump(0, rows)

    def _can_be_shared(self) -> bool:
        shared = (isinstance(column, Column) and column.tensor.is_shared() for column in self._columns)
        return self.initialized and self.ring.is_full and all(shared)

    def _begin(self, max_size: int, device: torch.device | str, ndim: int) -> None:
        """Set up a storage without memory."""
        super().__init__(max_size)
        if not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < 1:
            raise ValueError(errors.bad_size("ndim", ndim))
        self.ndim = ndim
        self.device = as_device(device) if device != "auto" else None
        self.form: Form | None = None
        self._asked_size = max_size
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._others: tuple[int, ...] = ()
        self._columns: list[AnyColumn] = []
        self._rows: RowArrays | None = None

    # Size -------------------------------------------------------------------------------------------------------------

    @property
    def initialized(self) -> bool:
        """Whether the memory is allocated: from the first write on."""
        return self.form is not None

    @property
    def max_size(self) -> int:
        """Number of items there is room for; with several dimensions, whole rows once their sizes are known."""
        return self.ring.size * math.prod(self._others) if self.initialized else self._asked_size

    @property
    def shape(self) -> torch.Size:
        """The dimensions that count the items stored: time, then the others."""
        return torch.Size((self.ring.length, *self._others))

    def __len__(self) -> int:
        return self.ring.length * math.prod(self._others) if self._others else self.ring.length

    @property
    def element_dims(self) -> int:
        """Number of batch dimensions of an item; see :class:`Storage`."""
        return 0 if self.form is None else self.form.element_dims

    # Memory -----------------------------------------------------------------------------------------------------------

    def _allocate(self, form: Form, shape: tuple[int, ...]) -> list[AnyColumn]:
        """Make the columns, for items along the dimensions ``shape``."""
        return [
            ObjectColumn(shape)
            if leaf.dtype is None
            else Column(new_memory(leaf.key, (*shape, *leaf.shape), leaf.dtype, self.device), self.ndim)
            for leaf in form.leaves
        ]

    def _initialize(self, form: Form, others: Sequence[int], device: torch.device) -> None:
        """Allocate memory for items of a form; on an error, nothing is changed."""
        if not form.leaves:
            raise ValueError(errors.no_leaves())
        unknown = [leaf for leaf in form.leaves if leaf.dtype is not None and leaf.dtype not in STORABLE]
        if unknown:
            raise TypeError(
                f"Storages in contiguous memory cannot hold the dtype {unknown[0].dtype}{errors.at(unknown[0].key)}: "
                "torch does not index tensors of it. Nothing was written. "
                "Fix: convert the entry, for example with .dequantize() or .to(torch.float32), or use ListStorage."
            )
        others = tuple(others)
        if 0 in others:
            raise ValueError(
                f"The data has {list(others)} items a row (such as one for each env), so there is nothing to store."
            )
        old, self.device = self.device, self.device or device
        rows = -(-self._asked_size // math.prod(others))
        try:
            with torch.inference_mode(False):  # outside of that mode, nothing could write to a tensor made in it
                columns = self._allocate(form, (rows, *others))
        except BaseException:
            self.device = old
            raise
        self.ring = self._make_ring(rows)
        self._adopt(form, columns, others)

    def _make_ring(self, rows: int) -> Ring:
        """Make the ring for memory that was just allocated."""
        return Ring(rows)

    def _adopt(self, form: Form, columns: list[AnyColumn], others: tuple[int, ...]) -> None:
        """Use columns as the memory of this storage."""
        form.put_on(self.device)
        self._columns, self._others = columns, others
        in_numpy = all(isinstance(column, Column) and column.array is not None for column in columns)
        self._rows = RowArrays(columns) if in_numpy else None
        self.form = form

    def _forget_memory(self) -> None:
        """Return to the state before the first data, which could not be written or loaded."""
        self.form = None
        self._forget_columns()
        self.ring = Ring(self._asked_size)

    @property
    def columns(self) -> dict[NestedKey, AnyColumn]:
        """The columns by key, with all places, filled or not; a bare tensor has the key ``()``."""
        leaves = () if self.form is None else self.form.leaves
        return {leaf.key: column for leaf, column in zip(leaves, self._columns, strict=True)}

    def column(self, key: NestedKey) -> AnyColumn:
        """Return the column of one leaf; raises ``KeyError`` if there is no such leaf.

        Its ``tensor`` has the dimensions of the storage, ``flat`` a single one in their place. Only the first
        ``len(storage)`` places of ``flat`` are filled.
        """
        columns = self.columns
        found = columns.get(as_key(as_tuple(key)) if key else key)
        if found is None:
            raise KeyError(errors.no_such_entry(key, list(columns)))
        return found

    @property
    def _storage(self) -> Any:
        """All of the memory as one batch, filled or not; None before the first write."""
        return None if self.form is None else self._view(slice(None))

    def _view(self, span: slice) -> Any:
        assert self.form is not None
        leaves = [column.rows(span) for column in self._columns]
        lead = torch.Size((len(range(self.ring.size)[span]), *self._others))
        return self.form.build(leaves, lead)

    # Writing ----------------------------------------------------------------------------------------------------------

    def prepare(self, data: Any, many: bool) -> Rows:
        """Check keys, shapes and dtypes, or learn them from the first data; see :meth:`Storage.prepare`."""
        if many and isinstance(data, list):
            return self._prepare_list(data)
        if self.form is None:
            self._learn(data, many)
        assert self.form is not None
        if not many:
            return self._prepare_one(data)
        try:
            count, *others = self.form.lead(data, self.ndim)
        except (AttributeError, TypeError):
            count, others = 0, list(self._others)  # another kind of data, which take_apart rejects
        if others != list(self._others):
            raise ValueError(
                f"The storage holds {list(self._others)} items a row (such as one for each env), and the data has "
                f"{list(others)}. Nothing was written. Fix: give data with as many, or use another buffer."
            )
        return Rows(count, self._readable(self.form.take_apart(data, (count, *self._others))))

    def _learn(self, data: Any, many: bool) -> None:
        ndim = self.ndim if many else self.ndim - 1
        lead = form_of(data, 0).lead(data, ndim) if ndim else torch.Size(())
        form = form_of(data, ndim)
        self._readable(form.take_apart(data, lead))
        self._initialize(form, lead[1:] if many else lead, device_of(data))

    def _prepare_one(self, data: Any) -> Rows:
        assert self.form is not None
        try:
            leaves = self.form.take_apart(data, self._others)
            # RowArrays.put reads all leaves before it writes the first, so unreadable ones change nothing.
            return Rows(1, leaves if self._rows is not None else self._readable(leaves), single=True)
        except ValueError as error:
            count = self._count_of_batch(data)
            if count is None:
                raise
            what = "item" if self.ndim == 1 else "row"
            raise ValueError(
                f"add stores one {what}, and got data that looks like {count} of the {what}s that are stored. "
                f"Nothing was written. Fix: buffer.extend(data) to store {count} {what}s; "
                f"to store all of it as one {what}, use a buffer of its own, whose first {what} it is."
            ) from error

    def _count_of_batch(self, data: Any) -> int | None:
        """Count the rows of data if it is a batch, with time first or last; None if it does not fit as a batch."""
        assert self.form is not None
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            lead = self.form.lead(data, self.ndim)
            for count, dims in ((lead[0], (lead[0], *self._others)), (lead[-1], (*self._others, lead[-1]))):
                with contextlib.suppress(ValueError):
                    self.form.take_apart(data, dims)
                    return count
        return None

    def _prepare_list(self, items: list[Any]) -> Rows:
        if not items:
            return Rows(0, [])
        if self.form is None:
            form = form_of(items[0], self.ndim - 1)
            lead = form_of(items[0], 0).lead(items[0], self.ndim - 1) if self.ndim > 1 else torch.Size(())
            parts = self._readable(stack_leaves(items, form, lead))
            self._initialize(form, lead, device_of(items[0]))
            return Rows(len(items), parts)
        return Rows(len(items), self._readable(stack_leaves(items, self.form, self._others)))

    def _readable(self, leaves: list[Any]) -> list[Any]:
        """Reject tensors that cannot be copied, before any leaf is written."""
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and (leaf.layout is not torch.strided or leaf.is_meta):
                where = "" if self.form is None else errors.at(self.form.leaves[place].key)
                what = 'a tensor on the device "meta"' if leaf.is_meta else f"a tensor of layout {leaf.layout}"
                raise ValueError(
                    f"The data has {what}{where}, shape {list(leaf.shape)}, which has no contiguous numbers to copy. "
                    "Nothing was written. Fix: give dense tensors on a real device, for example tensor.to_dense()."
                )
        return leaves

    def _put(self, start: int, rows: Rows, first: int, last: int) -> None:
        if rows.single and self._rows is not None:
            try:
                self._rows.put(start, rows.parts)
            except (RuntimeError, TypeError):
                self._readable(rows.parts)
                raise
        elif rows.single:
            for column, leaf in zip(self._columns, rows.parts, strict=True):
                column.put(start, leaf.unsqueeze(0) if isinstance(leaf, torch.Tensor) else leaf)
        else:
            whole = last - first == rows.count
            for column, values in zip(self._columns, rows.parts, strict=True):
                column.put(start, values if whole else values[first:last])

    def overwrite(self, place: Where, data: Any) -> None:
        """Overwrite items; see :meth:`Storage.overwrite`."""
        if self.form is None:
            raise IndexError(errors.NOTHING_STORED)
        if isinstance(data, list) and place.position is None:
            leaves = self._readable(stack_leaves(data, self.form, tuple(place.lead[1:])))
            if len(data) != place.lead[0]:
                raise ValueError(errors.other_count(place.lead[0], len(data)))
        else:
            leaves = self._readable(self.form.take_apart(data, tuple(place.lead)))
        with self.ring.lock:
            self.ring.changes += 1
            finish(lambda: self._write_over(place, leaves))

    def _write_over(self, place: Where, leaves: list[Any]) -> None:
        """Overwrite items with leaves that were checked."""
        for column, values in zip(self._columns, leaves, strict=True):
            if place.span is not None:
                column.put(place.span.start, values)
            elif place.position is not None:
                values = values.unsqueeze(0) if isinstance(values, torch.Tensor) else values
                column.scatter(torch.tensor([place.position]), values)
            elif place.flat is not None and len(place.flat):
                nested = len(place.lead) > 1 and isinstance(values, torch.Tensor)
                column.scatter(place.flat, values.flatten(0, len(place.lead) - 1) if nested else values)

    # Reading ----------------------------------------------------------------------------------------------------------

    def gather(self, index: Any) -> Any:
        """Copy items; see :meth:`Storage.gather`."""
        form = self.form
        if form is None:
            raise RuntimeError(errors.EMPTY_SAMPLE)
        if self.ndim > 1:
            index = self.positions(index)
        positions = index.numpy() if index.device.type == "cpu" else None
        with self.ring.reading:
            leaves = [column.take(index, positions) for column in self._columns]
        return form.build(leaves, index.shape)

    def read(self, place: Where) -> Any:
        """Read items; see :meth:`Storage.read`."""
        if self.form is None:
            raise RuntimeError(errors.NOTHING_STORED)
        if place.span is not None:
            return self._view(place.span)
        if place.position is not None:
            return self.form.build([column.one(place.position) for column in self._columns], torch.Size(()))
        assert place.flat is not None
        with self.ring.reading:
            leaves = [column.take(place.flat) for column in self._columns]
        if len(place.lead) != 1:
            leaves = [_unflattened(leaf, place.lead) for leaf in leaves]
        return self.form.build(leaves, place.lead)

    # State ------------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the form, the filled part of the columns and the state of the ring; see :meth:`Storage.state_dict`."""
        state = {**super().state_dict(), "others": list(self._others)}
        if self.form is not None:
            filled = slice(self.ring.length)
            state["form"] = self.form.describe()
            state["columns"] = [
                column.rows(filled) if isinstance(column, Column) else column.array[filled].tolist()
                for column in self._columns
            ]
        return state

    def check_state(self, state_dict: dict[str, Any]) -> None:
        """Reject another size or form, or columns of other shapes; see :meth:`Storage.check_state`."""
        try:
            is_empty = "items" not in state_dict and not state_dict.get("length")
            fits = self._fits(state_dict) if "form" in state_dict else is_empty
        except SENSELESS:
            fits = False
        if not fits:
            raise ValueError(errors.other_state(type(self).__name__, state_dict, self.max_size))

    def _fits(self, state_dict: dict[str, Any]) -> bool:
        """Whether the state of a storage with data fits; raises one of ``SENSELESS`` if it is malformed."""
        form, others = form_from(state_dict["form"]), tuple(read_shape(state_dict["others"]))
        rows = self.ring.size if self.initialized else -(-self._asked_size // math.prod(others))
        if not self._counts_fit(state_dict, rows) or state_dict["max_size"] != rows * math.prod(others):
            return False
        if self.form is not None and (self.form.leaves != form.leaves or self._others != others):
            return False
        columns, shapes = state_dict["columns"], form.expected((state_dict["length"], *others))
        return len(columns) == len(form.leaves) and all(map(_holds, columns, form.leaves, shapes))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Storage.load_state_dict`."""
        self.check_state(state_dict)
        if "form" not in state_dict or (self.form is None and not state_dict["length"]):
            self._empty()
            return
        counts = state_dict["cursor"], state_dict["length"], state_dict["written"]

        def fill() -> None:
            for column, values in zip(self._columns, state_dict["columns"], strict=True):
                if isinstance(column, ObjectColumn):
                    for i, value in enumerate(values):
                        column.array[i] = value
                else:
                    column.put(0, values)

        self._refill(form_from(state_dict["form"]), state_dict["others"], counts, fill)

    def _refill(
        self, form: Form, others: Sequence[int], counts: tuple[int, int, int], fill: Callable[[], None]
    ) -> None:
        """Replace all items by those that ``fill`` writes to the columns, which were checked.

        Args:
            form: of the items; what the storage learns if it has no memory yet.
            others: the dimensions beside time that count items, likewise.
            counts: cursor, length and rows ever written, as the ring has them afterwards.
            fill: writes the items.

        Raises:
            OSError: If the items cannot be read after all; the storage is empty then.
        """
        fresh = self.form is None
        if fresh:
            self._initialize(form, others, torch.device("cpu"))
        with self.ring.lock:
            try:
                self._reserve(0, counts[1])
                if not fresh:
                    self.ring.jump(0, 0)  # until all is loaded, other processes see an empty storage
                fill()
            except BaseException as error:
                if fresh:
                    self._forget_memory()
                elif not self.ring.length and isinstance(error, (OSError, *SENSELESS)):
                    raise OSError(
                        f"The checkpoint was checked and could then not be read ({error}). The storage had been "
                        "written to, so it was emptied. Fix: load again, or look after the disk."
                    ) from error
                raise
            self.ring.jump(*counts)

    def __repr__(self) -> str:
        if self.form is None:
            return f"{type(self).__name__}(len=0, max_size={self.max_size})"
        looks = {
            leaf.key: "objects" if leaf.dtype is None else f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
            for leaf in self.form.leaves
        }
        shown = ", ".join(look if key == () else f"{key!r}: {look}" for key, look in looks.items())
        return (
            f"{type(self).__name__}(\n    data=[{shown}],\n    shape={list(self.shape)},\n    len={len(self)},\n"
            f"    max_size={self.max_size})"
        )


class LazyTensorStorage(TensorStorage):
    """A storage in memory that is allocated on the first write.

    The first data written defines keys, shapes and dtypes.

    Args:
        max_size: number of items there is room for. With ``ndim`` above 1 it is rounded up to whole rows once the
            other dimensions are known: 100 items of 3 envs make 34 rows, 102 items.
        device: device of the memory; ``"auto"``: that of the first data.
        ndim: number of leading dimensions of the data that count items. The first one, along which the storage grows,
            is time; a buffer moves the time dimension there (see ``dim_extend``).
        compilable: accepted for code written for TorchRL; only False.
        shared_init: likewise; only False. A :class:`LazyMemmapStorage` is shared once it has data.

    Raises:
        ValueError: If ``max_size`` or ``ndim`` is not a positive integer.
        NotImplementedError: If ``compilable`` or ``shared_init`` is True.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> rb.extend((torch.arange(3), torch.ones(3, 2)))  # a tuple is one PyTree: three items
        tensor([0, 1, 2])
        >>> rb[-1]
        (tensor(2), tensor([1., 1.]))
    """

    def __init__(
        self,
        max_size: int,
        *,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        compilable: bool = False,
        shared_init: bool = False,
    ) -> None:
        refuse_compilable(compilable)
        if shared_init:
            raise NotImplementedError(
                "shared_init=True is not available: the process that writes first allocates the memory, and other "
                "processes must get the storage after that. Fix: leave it out, use LazyMemmapStorage, and write the "
                "first batch before the processes are started."
            )
        self._begin(max_size, device, ndim)


def device_of(data: Any) -> torch.device:
    """Return the device of the first tensor in a PyTree; the CPU if there is none."""
    for leaf in torch.utils._pytree.tree_leaves(data):
        if isinstance(leaf, torch.Tensor):
            return leaf.device
    return torch.device("cpu")


def _holds(values: Any, leaf: Leaf, shape: torch.Size) -> bool:
    """Whether values in a state fit a column of this leaf."""
    if leaf.dtype is None:
        return isinstance(values, list) and len(values) == shape[0]
    if not isinstance(values, torch.Tensor) or values.shape != shape or values.dtype != leaf.dtype:
        return False
    # An expanded tensor has fewer numbers in memory than its shape says.
    return values.layout is torch.strided and values.nbytes <= values.untyped_storage().nbytes()


def _unflattened(values: Any, lead: torch.Size) -> Any:
    if isinstance(values, torch.Tensor):
        return values.reshape((*lead, *values.shape[1:]))
    return reshape_objects(values, lead)
