"""SavedTensorDict: a TensorDict in a temporary file, which loads only the entries that are read."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor
from torch.utils import _pytree as pytree

from rlnb._tensordict import named, raw_entries
from rlnb.data.ted.keys import NestedKey, as_key

_FORMAT = "rlnb-saved-tensordict-1"
_ZIP = b"PK\x03\x04"  # the first bytes of each file of torch.save
_RAISE = object()


class TensorMeta(NamedTuple):
    """Shape, dtype and device of a tensor, without its values.

    Attributes:
        shape: of the tensor.
        dtype: of its values.
        device: where the tensor is once it is loaded.

    Example:
        >>> TensorMeta(torch.Size([2, 3]), torch.float32, torch.device("cpu")).nbytes
        24
    """

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @property
    def nbytes(self) -> int:
        """Number of bytes of the values."""
        return self.shape.numel() * self.dtype.itemsize


class SavedTensorDict:
    """A TensorDict in a temporary file, which takes almost no memory and is loaded on demand.

    An entry or a range of rows is read from the file when it is asked for: ``saved["obs"]`` reads one tensor,
    ``saved[3:5]`` two rows of each, ``load()`` everything. What is read is a copy in memory; changing it leaves the
    file as it is. Keys, shapes and dtypes take the same time for a kilobyte and for ten gigabytes.

    The file belongs to the object that wrote it and is deleted with it, at the end of the process at the latest. Only
    the name of the file is pickled: the copy in another process reads the same file and does not delete it, so the
    first object must live for as long as the others read. ``copy.deepcopy`` writes a file of its own.

    The file is one of ``torch.save`` and is read with ``weights_only=True``, which makes tensors and plain values and
    calls nothing that the file names. Lazy stacks are loaded as lazy stacks again.

    TorchRL had this class until TensorDict became a package of its own. Where its page writes
    ``td.to(SavedTensorDict)``, write ``SavedTensorDict(td)``. It is not a ``TensorDictBase``: what it lacks, the loaded
    TensorDict has.

    Args:
        source: The TensorDict to save, or a dictionary. Its tensors are on one device and do not require grad.
        batch_size: Batch size ``[*B]``. Default: that of a TensorDict, and ``[]`` for a dictionary.
        device: Device to which tensors are loaded. Default: the one they are on.
        scratch_dir: Folder of the file. Default: ``tempfile.gettempdir()``. Where that folder is kept in memory, as
            ``/tmp`` is on some systems, give one on a disk.

    Raises:
        TypeError: If ``source`` is not a TensorDict or a dictionary, or an entry is not a dense tensor.
        RuntimeError: If a tensor requires grad, or its shape does not start with the batch size.
        ValueError: If the tensors are on several devices.
        OSError: If the file cannot be written. Nothing is left of it.

    Example:
        >>> data = TensorDict({"obs": torch.arange(6.0).view(3, 2), "action": torch.tensor([1, 0, 1])}, [3])
        >>> saved = SavedTensorDict(data)
        >>> saved.get_meta("obs").shape, saved["action"].tolist(), saved[1]["obs"].tolist()
        (torch.Size([3, 2]), [1, 0, 1], [2.0, 3.0])
        >>> filename = saved.filename
        >>> os.path.isfile(filename)
        True
        >>> del saved
        >>> os.path.isfile(filename)
        False
    """

    __slots__ = ("__weakref__", "_batch_size", "_filename")

    def __init__(
        self,
        source: TensorDictBase | Mapping[str, Any] | SavedTensorDict,
        batch_size: Any = None,
        *,
        device: torch.device | str | int | None = None,
        scratch_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        data: Any = source
        if isinstance(data, SavedTensorDict):
            data = data.load()
        elif is_non_tensor(data) or not isinstance(data, (TensorDictBase, Mapping)):
            raise TypeError(
                f"source must be a TensorDict or a dictionary of tensors, got {type(source).__name__}. "
                'Fix: SavedTensorDict(source={"observation": tensor}, batch_size=[len(tensor)]).'
            )
        if not isinstance(data, TensorDictBase) or (batch_size is not None and [*data.batch_size] != [*batch_size]):
            data = TensorDict(data, batch_size=batch_size)
        leaves = list(_leaves(data, ()))
        _check(leaves)
        device = data.device if device is None else torch.empty(0, device=device).device
        there = str(leaves[0][1].device) if leaves else "cpu"
        content = {
            "format": _FORMAT,
            "data": _pack(data, set()),
            "device": None if device is None else str(device),
            "place": there if device is None else str(device),
        }
        self._batch_size, self._filename = data.batch_size, _write(content, scratch_dir)
        weakref.finalize(self, _delete, self._filename, os.getpid())

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str]) -> SavedTensorDict:
        """Open the file of another SavedTensorDict, without deleting it later; unpickling calls this.

        Raises:
            FileNotFoundError: If the file is gone.
            ValueError: If it was cut short, or is not the file of a SavedTensorDict.
        """
        saved = cls.__new__(cls)
        saved._filename = os.path.abspath(filename)
        saved._batch_size = saved._mapped()[0].batch_size
        return saved

    def __reduce__(self) -> tuple[Any, ...]:
        return SavedTensorDict.from_file, (self._filename,)

    def __copy__(self) -> SavedTensorDict:
        return self.__deepcopy__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> SavedTensorDict:
        return SavedTensorDict(self, scratch_dir=os.path.dirname(self._filename))

    # What is known without loading -----------------------------------------------------------------------------------

    @property
    def filename(self) -> str:
        """Path of the file."""
        return self._filename

    @property
    def batch_size(self) -> torch.Size:
        """Batch size ``[*B]``."""
        return self._batch_size

    shape = batch_size

    @property
    def batch_dims(self) -> int:
        """Number of batch dimensions."""
        return len(self._batch_size)

    ndim = batch_dims

    def numel(self) -> int:
        """Return the number of items of the batch."""
        return max(1, self._batch_size.numel())

    def __len__(self) -> int:
        return self._batch_size[0] if self._batch_size else 0

    @property
    def device(self) -> torch.device | None:
        """Device of the TensorDict that :meth:`load` returns."""
        device = self._mapped()[1]["device"]
        return None if device is None else torch.device(device)

    def is_memmap(self) -> bool:
        """Return False: what is read is a copy, while writes to a memory-mapped tensor reach its file."""
        return False

    def is_shared(self) -> bool:
        """Return False: each process reads its own copy."""
        return False

    def keys(self, include_nested: bool = False, leaves_only: bool = False) -> list[NestedKey]:
        """Return the keys, as ``TensorDict.keys`` does."""
        return list(self._mapped()[0].keys(include_nested, leaves_only))

    def __contains__(self, key: NestedKey) -> bool:
        return key in self._mapped()[0].keys(True)

    def get_meta(self, key: NestedKey) -> TensorMeta:
        """Return shape, dtype and device of a tensor without reading it; TorchRL's page calls it ``_get_meta``.

        Raises:
            KeyError: If there is no such entry, or it is a nested TensorDict.
        """
        data, content = self._mapped()
        value = _get(data.to("meta"), key)
        if not isinstance(value, torch.Tensor):
            below = [as_key((*_parts(key), *_parts(each))) for each in value.keys(True, True)]
            raise KeyError(f"{key!r} is a nested TensorDict, which has no dtype. Fix: give the key of one of {below}.")
        return TensorMeta(value.shape, value.dtype, torch.device(content["place"]))

    def items_meta(self) -> Iterator[tuple[NestedKey, TensorMeta]]:
        """Iterate over the keys of all tensors with their shape, dtype and device, without reading one."""
        data, content = self._mapped()
        place = torch.device(content["place"])
        for key, value in data.to("meta").items(True, True):
            yield key, TensorMeta(value.shape, value.dtype, place)

    def bytes(self) -> int:
        """Return the number of bytes of all tensors, without reading one."""
        return sum(meta.nbytes for _, meta in self.items_meta())

    def __repr__(self) -> str:
        try:
            data, content = self._mapped()
        except (OSError, ValueError) as error:
            what = "is gone" if isinstance(error, FileNotFoundError) else "cannot be read"
            return f"SavedTensorDict(batch_size={self._batch_size}, whose file {what})"
        shown = repr(data.to("meta")).replace("device=meta, ", f"device={content['place']}, ")
        return "Saved" + shown.removeprefix("LazyStacked")

    # Loading ----------------------------------------------------------------------------------------------------------

    def load(self, device: torch.device | str | int | None = None) -> TensorDictBase:
        """Load everything: a TensorDict in memory, lazily stacked where the source was.

        Args:
            device: Device of the tensors. Default: the one they were on. ``"meta"`` gives shapes and dtypes in a
                TensorDict that has no values, without reading them.

        Raises:
            FileNotFoundError: If the file is gone.
            ValueError: If it was cut short or replaced.
        """
        data, content = self._mapped()
        return data.to(device) if _is_meta(device) else _loaded(data, content, device)

    _load = load  # the name on TorchRL's page

    def contiguous(self) -> TensorDict:
        """Load everything, with lazy stacks stacked."""
        return self.load().contiguous()

    def clone(self) -> TensorDictBase:
        """Load everything: the clone of a saved TensorDict is in memory, as that of a memory-mapped one is."""
        return self.load()

    def get(self, key: NestedKey, default: Any = _RAISE) -> Any:
        """Load one tensor, or one nested TensorDict.

        Args:
            key: Its key.
            default: What to return if there is no such entry. Default: raise ``KeyError``.
        """
        data, content = self._mapped()
        if default is not _RAISE and key not in data.keys(True):
            return default
        return _loaded(_get(data, key), content)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str) or (isinstance(index, tuple) and index and all(isinstance(i, str) for i in index)):
            return self.get(index)
        data, content = self._mapped()
        return _loaded(data[index], content)

    def values(self) -> Iterator[Any]:
        """Iterate over the entries, loading one after another."""
        return (value for _, value in self.items())

    def items(self, include_nested: bool = False, leaves_only: bool = False) -> Iterator[tuple[NestedKey, Any]]:
        """Iterate over the keys and entries, loading one entry after another."""
        for key in self.keys(include_nested, leaves_only):
            yield key, self.get(key)

    def to(self, dest: Any) -> Any:
        """Load everything to a device, as ``"cuda"``, or as another class, as ``TensorDict``.

        ``to("meta")`` gives a TensorDict of shapes and dtypes without reading the values, and ``to(SavedTensorDict)``
        the object itself. With a dtype, what is loaded is cast.
        """
        if isinstance(dest, type):
            if issubclass(dest, SavedTensorDict):
                return self
            if not issubclass(dest, TensorDictBase):
                raise TypeError(
                    f"A SavedTensorDict can be loaded as a TensorDict, got {dest.__name__}. Fix: saved.to(TensorDict)."
                )
            return self.contiguous() if dest is TensorDict else self.load()
        return self.load().to(dest) if isinstance(dest, torch.dtype) else self.load(dest)

    def _mapped(self) -> tuple[Any, dict[str, Any]]:
        """Return the data, mapped from the file into memory so that nothing is read yet, and what was saved with it."""
        return _read(self._filename)

    # What cannot be done ----------------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError(
            "A SavedTensorDict cannot be changed: its file is written once. "
            "Fix: data = saved.load(), change data, and SavedTensorDict(data)."
        )

    def __getattr__(self, name: str) -> NoReturn:
        known = not name.startswith("_") and hasattr(TensorDict, name)
        fix = f": it only reads its file. Fix: saved.load().{name}" if known else ""
        raise AttributeError(f"A SavedTensorDict has no attribute {name!r}{fix}.")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch calls this for torch.stack([saved, ...]) and the like, and td.to(SavedTensorDict) comes here, too: the
        # class is looked at as if it were a tensor.
        flat, form = pytree.tree_flatten((args, kwargs or {}))
        if any(isinstance(each, type) and issubclass(each, SavedTensorDict) for each in flat):
            raise TypeError(
                "A TensorDict cannot be converted by td.to(SavedTensorDict): `to` knows devices and dtypes only. "
                "Fix: SavedTensorDict(td)."
            )
        loaded = [each.load() if isinstance(each, SavedTensorDict) else each for each in flat]
        args, kwargs = pytree.tree_unflatten(loaded, form)
        return func(*args, **kwargs)


def _is_meta(device: Any) -> bool:
    return device is not None and torch.device(device).type == "meta"


def _parts(key: NestedKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _get(data: TensorDictBase, key: NestedKey) -> Any:
    if key not in data.keys(True):
        known = ", ".join(map(repr, data.keys(True, True)))
        raise KeyError(f"There is no entry {key!r} in this SavedTensorDict. It has: {known or 'no entries'}.")
    return data.get(key)


def _loaded(value: Any, content: dict[str, Any], device: Any = None) -> Any:
    """Copy mapped tensors into memory, to the device that they were on or to another one."""
    target, labelled = device or content["place"], device is not None or content["device"] is not None
    value = value.clone()
    if isinstance(value, torch.Tensor):
        return value.to(target)
    if labelled or target != "cpu":
        value = value.to(target)
    return value if labelled else value.clear_device_()


# The file -------------------------------------------------------------------------------------------------------------


def _leaves(data: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Iterate over the entries that are not TensorDicts; those of a lazy stack come one after another under one key."""
    if isinstance(data, LazyStackedTensorDict) and not is_non_tensor(data):
        for item in data.tensordicts:
            yield from _leaves(item, path)
    elif isinstance(data, TensorDictBase) and not is_non_tensor(data):
        for name, value in raw_entries(data).items():
            yield from _leaves(value, (*path, name))
    else:
        yield path, data


def _check(leaves: list[tuple[tuple[str, ...], Any]]) -> None:
    """Raise for what cannot be saved, before a file is made."""
    for path, leaf in leaves:
        dense = isinstance(leaf, torch.Tensor) and not leaf.is_nested and leaf.layout is torch.strided
        if not dense or leaf.is_meta:
            what = f"a {type(leaf).__name__}"
            if isinstance(leaf, torch.Tensor):
                what = "a tensor without values" if leaf.is_meta else "a nested or sparse tensor"
            raise TypeError(
                f"A SavedTensorDict holds dense tensors, and {as_key(path)!r} is {what}. "
                f"Fix: SavedTensorDict(data.exclude({as_key(path)!r}))."
            )
    grad = dict.fromkeys(as_key(path) for path, leaf in leaves if leaf.requires_grad)
    if grad:
        raise RuntimeError(
            f"A file holds values and no graph, and these tensors require grad: {', '.join(map(repr, grad))}. "
            "Fix: SavedTensorDict(data.detach())."
        )
    places = {str(leaf.device): as_key(path) for path, leaf in leaves}
    if len(places) > 1:
        one, two, *_ = (f"{key!r} is on {place}" for place, key in places.items())
        raise ValueError(
            f"All tensors of a SavedTensorDict are on one device, and {one} and {two}. "
            'Fix: SavedTensorDict(data.to("cpu")).'
        )


def _pack(data: Any, seen: set[int]) -> dict[str, Any]:
    """Return a TensorDict as dictionaries of tensors in memory; ``seen`` receives the addresses of what they hold."""
    node: dict[str, Any] = {"batch_size": list(data.batch_size)}
    with contextlib.suppress(ValueError):  # a lazy stack of TensorDicts whose names differ: each item has its own
        node["names"] = list(data.names)
    if isinstance(data, LazyStackedTensorDict):
        return {**node, "stack_dim": data.stack_dim, "items": [_pack(item, seen) for item in data.tensordicts]}
    node["entries"] = entries = {}
    for name, value in raw_entries(data).items():
        if isinstance(value, TensorDictBase):
            entries[name] = _pack(value, seen)
            continue
        leaf = value.detach().as_subclass(torch.Tensor).cpu().resolve_conj().resolve_neg()
        # torch.save writes all of the memory that a tensor is a view of, and rejects one memory with two dtypes.
        memory = leaf.untyped_storage()
        if memory.nbytes() != leaf.nbytes or memory.data_ptr() in seen:
            leaf = leaf.clone(memory_format=torch.contiguous_format)
        seen.add(memory.data_ptr())
        entries[name] = leaf
    return node


def _unpack(node: Any) -> Any:
    """Undo :func:`_pack`; raises some error for what was not made by it."""
    if "items" in node:
        data = LazyStackedTensorDict(*map(_unpack, node["items"]), stack_dim=node["stack_dim"])
    else:
        entries = {}
        for name, value in node["entries"].items():
            entries[name] = value if type(value) is torch.Tensor else _unpack(value)
        data = TensorDict(entries, batch_size=node["batch_size"])
    return named(data, node["names"]) if any(node.get("names", ())) else data


def _write(content: Any, folder: str | os.PathLike[str] | None) -> str:
    where = tempfile.gettempdir() if folder is None else os.path.abspath(folder)
    filename = None
    try:
        handle, filename = tempfile.mkstemp(prefix="rlnb-", suffix=".pt", dir=where)
        with open(handle, "wb") as file:
            torch.save(content, file)
    except BaseException as error:
        if filename is not None:
            _delete(filename, os.getpid())
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__  # torch.save raises another error on top of that of the system
        if isinstance(cause, OSError) and isinstance(error, (OSError, RuntimeError)):
            raise OSError(
                cause.errno,
                f"The TensorDict could not be saved in {where!r}: {cause.strerror}. Nothing is left of its file. "
                "Fix: free some space, or SavedTensorDict(data, scratch_dir=...) with a folder on another disk.",
            ) from error
        raise
    return filename


def _read(filename: str) -> tuple[Any, dict[str, Any]]:
    """Map the file into memory, which reads its table of contents only."""
    if not os.path.isfile(filename):  # a pipe, too: reading it could wait for ever
        raise FileNotFoundError(
            f"The file of this SavedTensorDict is gone: {filename!r}. It is deleted with the object that wrote it. "
            "Fix: keep that object for as long as copies of it in other processes are in use."
        )
    with open(filename, "rb") as file:
        ours = file.read(len(_ZIP)) == _ZIP
    if ours:
        try:
            content = torch.load(filename, map_location="cpu", mmap=True, weights_only=True)
        except Exception as error:  # torch raises errors of many classes for what it cannot read
            raise ValueError(
                f"The file {filename!r} cannot be read: it was cut short or altered after it was written. "
                "Fix: save the data again, SavedTensorDict(data)."
            ) from error
        with contextlib.suppress(Exception):  # somebody else may have written the file
            if content["format"] == _FORMAT:
                torch.device(content["place"])
                return _unpack(content["data"]), content
    raise ValueError(
        f"The file {filename!r} was not written by a SavedTensorDict. Nothing of it was used. "
        "Fix: SavedTensorDict.from_file(saved.filename)."
    )


def _delete(filename: str, owner: int) -> None:
    """Delete a file in the process that wrote it, but not in one that was forked from that."""
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.unlink(filename)
