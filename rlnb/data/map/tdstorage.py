"""TensorDictMap: a dictionary whose keys and values are rows of TensorDicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn

from rlnb.data.map.hash import RandomProjectionHash, SipHash
from rlnb.data.map.query import QueryModule
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.tensor import LazyTensorStorage
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys

# Rows with more numbers than this are hashed through a random projection.
_WIDE = 1024


class TensorMap(ABC):
    """Abstract base class of maps whose keys and values are rows of TensorDicts.

    Example:
        >>> places = TensorDictMap(query_module=QueryModule(["key"]), storage={"out": LazyTensorStorage(100)})
        >>> isinstance(places, TensorMap), len(places)
        (True, 0)
    """

    @abstractmethod
    def clear(self) -> None:
        """Remove all rows."""

    @abstractmethod
    def __getitem__(self, item: Any) -> Any: ...

    @abstractmethod
    def __setitem__(self, item: Any, value: Any) -> None: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def contains(self, item: Any) -> torch.Tensor:
        """Check which rows of a TensorDict ``[*batch]`` are keys of the map; returns booleans ``[*batch]``."""

    def __contains__(self, item: Any) -> bool:
        return bool(self.contains(item).all())


class TensorDictMap(nn.Module, TensorMap):
    """Stores rows of TensorDicts, indexed by rows of other TensorDicts.

    Args:
        query_module: finds the storage index of a row.
        storage: a storage for each stored entry, by key.
        collate_fn: function applied to each entry that is read.
        out_keys: keys of the entries that are returned. Default: all stored ones.
        write_fn: called with the rows to write and the rows stored under the same keys (``None`` for new keys), returns
            the rows to store. Default: the rows to write are stored.

    Raises:
        TypeError: If ``storage`` is not a dictionary of storages.
        KeyError: If one of ``out_keys`` has no storage.

    Example:
        >>> places = TensorDictMap(query_module=QueryModule(["key"]), storage={"out": LazyTensorStorage(100)})
        >>> key = TensorDict({"key": torch.tensor([-1.0, 1.0])}, [2])
        >>> places[key] = TensorDict({"out": torch.tensor([10, 20])}, [2])
        >>> places[key]["out"], len(places)
        (tensor([10, 20]), 2)
        >>> places.contains(TensorDict({"key": torch.tensor([1.0, 3.0])}, [2]))
        tensor([ True, False])
    """

    def __init__(
        self,
        *,
        query_module: QueryModule,
        storage: Mapping[NestedKey, Storage],
        collate_fn: Callable[[Any], Any] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        write_fn: Callable[[TensorDictBase, TensorDictBase | None], TensorDictBase] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(storage, Mapping) or not storage:
            raise TypeError(
                f"storage must be a dictionary with a storage for each entry, got {type(storage).__name__}. "
                'Fix: storage={"value": LazyTensorStorage(1000)}.'
            )
        self.query_module = query_module
        self.storage = dict(storage)
        self.collate_fn, self.write_fn = collate_fn, write_fn
        self.out_keys: list[NestedKey] = list(storage) if out_keys is None else list(out_keys)
        unknown = [key for key in self.out_keys if key not in self.storage]
        if unknown:
            raise KeyError(
                f"out_keys names {', '.join(map(repr, unknown))}, for which there is no storage. The storages are for: "
                f"{', '.join(map(repr, self.storage))}. Fix: add a storage for each of out_keys."
            )

    @classmethod
    def from_tensordict_pair(
        cls,
        source: TensorDictBase,
        dest: TensorDictBase,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        max_size: int = 1000,
        storage_constructor: Callable[[], Storage] | None = None,
        hash_module: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        write_fn: Callable[[TensorDictBase, TensorDictBase | None], TensorDictBase] | None = None,
    ) -> TensorDictMap:
        """Create a map for data like the given examples.

        Args:
            source: example of the rows that are keys.
            dest: example of the rows that are stored.
            in_keys: keys of the entries of ``source`` that identify a row.
            out_keys: keys of the entries of ``dest`` that are stored. Default: all leaves.
            max_size: the largest number of rows.
            storage_constructor: creates the storage of an entry. Default: ``LazyTensorStorage(max_size)``.
            hash_module: see :class:`QueryModule`. Default: :class:`SipHash`, or :class:`RandomProjectionHash` for
                entries with more than 1,024 numbers per row.
            collate_fn: see the class.
            write_fn: see the class.

        Returns:
            An empty map.

        Example:
            >>> source = TensorDict({"observation": torch.zeros(3, 4), "action": torch.arange(3)}, [3])
            >>> dest = TensorDict({"observation": torch.ones(3, 4), "reward": torch.ones(3, 1)}, [3])
            >>> after = TensorDictMap.from_tensordict_pair(source, dest, in_keys=["observation", "action"])
            >>> after[source] = dest
            >>> source["_index"], after[source]["reward"].shape
            (tensor([0, 1, 2]), torch.Size([3, 1]))
        """
        if hash_module is None:
            widths = [source.get(key)[..., None].flatten(source.batch_dims).shape[-1] for key in in_keys]
            hash_module = [RandomProjectionHash() if width > _WIDE else SipHash() for width in widths]
        kept = leaf_keys(dest) if out_keys is None else list(out_keys)
        make = (lambda: LazyTensorStorage(max_size)) if storage_constructor is None else storage_constructor
        query = QueryModule(in_keys=list(in_keys), hash_module=hash_module)
        storage = {key: make() for key in kept}
        return cls(query_module=query, storage=storage, collate_fn=collate_fn, write_fn=write_fn)

    @property
    def max_size(self) -> int:
        """The largest number of rows."""
        return min(storage.max_size for storage in self.storage.values())

    @property
    def in_keys(self) -> list[NestedKey]:
        """Keys of the entries that identify a row."""
        return self.query_module.in_keys

    def clear(self) -> None:
        """Remove all rows."""
        self.query_module.clear()
        for storage in self.storage.values():
            storage.ring.jump(0, 0)

    def __len__(self) -> int:
        return len(next(iter(self.storage.values())))

    def contains(self, item: TensorDictBase) -> torch.Tensor:
        """Whether each row is a key of the map.

        Args:
            item: the rows, of any batch size.

        Returns:
            A boolean tensor of the same batch size.
        """
        return self._index_of(item) < len(self)

    def __getitem__(self, item: TensorDictBase) -> TensorDict:
        index = self._index_of(item)
        if bool((index >= len(self)).any()):
            raise KeyError(
                f"{int((index >= len(self)).sum())} of {index.numel()} rows are not in the map. "
                "Fix: check map.contains(item) first, or store them with map[item] = value."
            )
        found = self._read(index.reshape(-1)).select(*self.out_keys)
        if self.collate_fn is not None:
            for key in self.out_keys:
                found.set(key, self.collate_fn(found.get(key)))
        return found.reshape(index.shape) if index.ndim != 1 else found

    def __setitem__(self, item: TensorDictBase, value: TensorDictBase) -> None:
        missing = [key for key in self.storage if value.get(key, None) is None]
        if missing:
            raise KeyError(
                f"The value must have the entries {', '.join(map(repr, self.storage))}, but lacks "
                f"{', '.join(map(repr, missing))}. Fix: add the missing entries."
            )
        if value.batch_size != item.batch_size:
            raise ValueError(
                f"Keys and values must have the same batch size, got {list(item.batch_size)} and "
                f"{list(value.batch_size)}. Fix: give both the same batch size."
            )
        # Of several rows with one key, the last one counts. Nothing is written before everything is checked.
        before, flat = len(self), value.reshape(-1)
        asked = self.query_module(item.reshape(-1), extend=False, clone=True)
        places, hashes = (asked.get(key).tolist() for key in self.query_module.out_keys)
        known = {place: row for row, place in enumerate(places) if place < before}
        new = {hashes[row]: row for row, place in enumerate(places) if place >= before}
        if before + len(new) > self.max_size:
            raise ValueError(
                f"The map is limited to {self.max_size} rows and holds {before}, but got {len(new)} new ones. "
                "Fix: use larger storages, such as LazyTensorStorage(100_000), or call map.clear()."
            )
        index = torch.tensor(list(known), dtype=torch.int64)
        added, changed = flat[list(new.values())], flat[list(known.values())]
        if self.write_fn is not None:
            added = self.write_fn(added, None) if new else added
            changed = self.write_fn(changed, self._read(index)) if known else changed
        prepared = {key: storage.prepare(added.get(key), many=True) for key, storage in self.storage.items() if new}
        self.query_module(item, extend=True)
        for key, storage in self.storage.items():
            if known:
                storage.set(index, changed.get(key))
            if new:
                storage.append(prepared[key])

    def _read(self, index: torch.Tensor) -> TensorDict:
        """Read all entries at some indices."""
        result = TensorDict(batch_size=[index.numel()])
        for key, storage in self.storage.items():
            result.set(key, storage.get(index))
        return result

    def _index_of(self, item: TensorDictBase) -> torch.Tensor:
        return self.query_module(item, extend=False, clone=True).get(self.query_module.index_key)
