"""A map from data to data: what a dictionary is for Python values, for rows of TensorDicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn

from rlnb.data.map.hash import RandomProjectionHash, SipHash
from rlnb.data.map.query import QueryModule
from rlnb.data.replay_buffers import LazyTensorStorage
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys

# Wider rows than this are hashed through a random projection.
_WIDE = 1024


class TensorMap(ABC):
    """A map whose keys and values are rows of TensorDicts."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    def __getitem__(self, item: Any) -> Any: ...

    @abstractmethod
    def __setitem__(self, item: Any, value: Any) -> None: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def contains(self, item: Any) -> torch.Tensor:
        """Whether each row is a key."""

    def __contains__(self, item: Any) -> bool:
        return bool(self.contains(item).all())


class TensorDictMap(nn.Module, TensorMap):
    """Stores rows of TensorDicts under rows of other TensorDicts.

    Keyword Args:
        query_module: finds the place of a row.
        storage: a storage for each entry that is kept, by its key.
        collate_fn: applied to each entry that is read; None for none.
        out_keys: keys of the entries that are returned; None for all that are stored.
        write_fn: called with new rows, and with the old ones where their keys are known (else None); returns what is
            stored. None to store the new rows.

    Raises:
        TypeError: if ``storage`` is not a dictionary of storages.

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
                f"TensorDictMap takes a storage for each entry that it keeps, and got {type(storage).__name__}. "
                'Fix: storage={"value": LazyTensorStorage(1000)}.'
            )
        self.query_module = query_module
        self.storage = dict(storage)
        self.collate_fn, self.write_fn = collate_fn, write_fn
        self._out_keys = list(storage) if out_keys is None else list(out_keys)
        unknown = [key for key in self._out_keys if key not in self.storage]
        if unknown:
            raise KeyError(
                f"out_keys has {', '.join(map(repr, unknown))}, for which there is no storage. Stored are: "
                f"{', '.join(map(repr, self.storage))}. Fix: give each of out_keys a storage."
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
        """Make a map for data like these.

        Args:
            source: an example of the rows that are keys.
            dest: an example of the rows that are stored.
            in_keys: keys of the entries of ``source`` that identify a row.
            out_keys: keys of the entries of ``dest`` that are kept; None for all leaves.
            max_size: how many rows there is room for.
            storage_constructor: makes a storage for an entry; None for ``LazyTensorStorage(max_size)``.
            hash_module: see :class:`QueryModule`. None for :class:`SipHash`, and for
                :class:`RandomProjectionHash` where an entry has more than 1,024 numbers a row.
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
        """How many rows there is room for."""
        return min(storage.max_size for storage in self.storage.values())

    @property
    def in_keys(self) -> list[NestedKey]:
        """Keys of the entries that identify a row."""
        return self.query_module.in_keys

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys of the entries that are returned."""
        return self._out_keys

    def clear(self) -> None:
        """Forget everything."""
        self.query_module.clear()
        for storage in self.storage.values():
            storage.ring.jump(0, 0)

    def __len__(self) -> int:
        return len(next(iter(self.storage.values())))

    def contains(self, item: TensorDictBase) -> torch.Tensor:
        """Whether each row is a key.

        Args:
            item: of any batch size.

        Returns:
            A tensor of bools of its batch size.
        """
        return self._places(item) < len(self)

    def __getitem__(self, item: TensorDictBase) -> TensorDict:
        index = self._places(item)
        if bool((index >= len(self)).any()):
            raise KeyError(
                f"{int((index >= len(self)).sum())} of {index.numel()} rows are not in the map. "
                "Fix: ask map.contains(item) first, or store them with map[item] = value."
            )
        found = self._read(index.reshape(-1)).select(*self._out_keys)
        if self.collate_fn is not None:
            for key in self._out_keys:
                found.set(key, self.collate_fn(found.get(key)))
        return found.reshape(index.shape) if index.ndim != 1 else found

    def __setitem__(self, item: TensorDictBase, value: TensorDictBase) -> None:
        missing = [key for key in self.storage if value.get(key, None) is None]
        if missing:
            raise KeyError(
                f"The map keeps {', '.join(map(repr, self.storage))}, and the value has no "
                f"{', '.join(map(repr, missing))}. Fix: add what is missing."
            )
        if value.batch_size != item.batch_size:
            raise ValueError(
                f"A map takes a value for each key, and the keys have batch size {list(item.batch_size)}, the values "
                f"{list(value.batch_size)}. Fix: give both the same batch size."
            )
        # The last row counts where several have one key. Nothing changes before all of it is known to fit.
        before, flat = len(self), value.reshape(-1)
        asked = self.query_module(item.reshape(-1), extend=False, clone=True)
        places, hashes = (asked.get(key).tolist() for key in self.query_module.out_keys)
        known = {place: row for row, place in enumerate(places) if place < before}
        new = {hashes[row]: row for row, place in enumerate(places) if place >= before}
        if before + len(new) > self.max_size:
            raise ValueError(
                f"The map has room for {self.max_size} rows, holds {before}, and got {len(new)} new ones. "
                "Fix: make its storages larger, such as LazyTensorStorage(100_000), or call map.clear()."
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
        """Read all that is stored at some places."""
        result = TensorDict(batch_size=[index.numel()])
        for key, storage in self.storage.items():
            result.set(key, storage.get(index))
        return result

    def _places(self, item: TensorDictBase) -> torch.Tensor:
        return self.query_module(item, extend=False, clone=True).get(self.query_module.index_key)
