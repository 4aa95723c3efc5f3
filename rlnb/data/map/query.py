"""Queries: which place in a storage belongs to the data in a TensorDict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn

from rlnb.data.map.hash import SipHash, siphash
from rlnb.data.map.rows import RowKey, row_bytes, row_keys
from rlnb.data.ted.keys import NestedKey

Hash = Callable[[torch.Tensor], Any]


class HashToInt:
    """Numbers hashes in the order in which they come, so that they index a storage without gaps.

    Example:
        >>> to_int = HashToInt()
        >>> to_int(torch.tensor([50, 70, 50]), extend=True)
        tensor([0, 1, 0])
        >>> to_int(torch.tensor([70, 90]))
        tensor([1, 2])
    """

    def __init__(self) -> None:
        self._index_of: dict[int, int] = {}

    def __call__(self, key: torch.Tensor, extend: bool = False) -> torch.Tensor:
        """Number hashes.

        Args:
            key: hashes of shape ``[n]``, int64.
            extend: whether to give a number to a hash that has none. Without it such a hash gets the number of hashes
                known, which is one past the last place that is in use.

        Returns:
            The numbers, shape ``[n]``, int64.
        """
        known = self._index_of
        if extend:
            numbers = [known.setdefault(value, len(known)) for value in key.tolist()]
        else:
            numbers = [known.get(value, len(known)) for value in key.tolist()]
        return torch.tensor(numbers, dtype=torch.int64, device=key.device)

    def __len__(self) -> int:
        return len(self._index_of)

    def clear(self) -> None:
        """Forget all hashes."""
        self._index_of.clear()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The hashes in the order of their numbers, as ``"keys"``."""
        return {"keys": torch.tensor(list(self._index_of), dtype=torch.int64)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> None:
        """Take over the numbers of another one.

        Args:
            state_dict: what :meth:`state_dict` returned.
            strict: whether an unknown entry is an error.
            assign: without effect.

        Raises:
            KeyError: if ``"keys"`` is missing, or with ``strict`` if there is more.
        """
        if "keys" not in state_dict or (strict and len(state_dict) > 1):
            raise KeyError(
                f'The state of a HashToInt has one entry, "keys", and this has {sorted(state_dict)}. '
                "Fix: pass what HashToInt.state_dict() returned."
            )
        self._index_of = {value: number for number, value in enumerate(state_dict["keys"].tolist())}


class QueryModule(nn.Module):
    """Finds the place in a storage that belongs to the data under some keys of a TensorDict.

    Equal data has the same place, and different data has different places: where two hashes agree, the data itself is
    compared (see ``compare``).

    Args:
        in_keys: keys of the entries that identify an element.
        index_key: where the place is written.
        hash_key: where the hash is written.
        hash_module: hashes an entry of shape ``[n, *shape]`` to ``[n]``; or one for each of ``in_keys``. None for
            :class:`SipHash`.
        hash_to_int: numbers hashes; None for :class:`HashToInt`.
        aggregator: hashes the hashes of several entries, shape ``[n, len(in_keys)]``, into one. None for the
            ``hash_module`` if that is a single one, else for :class:`SipHash`.
        clone: whether a call returns a shallow copy and leaves its input as it was.
        compare: whether to compare the data where hashes agree. Say False for a hash that shall put near states into
            one place.

    Raises:
        ValueError: if there are no keys, or not one hash module for each.

    Example:
        >>> from tensordict import TensorDict
        >>> query = QueryModule(in_keys=["a", "b"], index_key="index")
        >>> data = TensorDict({"a": torch.tensor([1, 1, 1]), "b": torch.tensor([3, 3, 2])}, [3])
        >>> query(data)["index"]
        tensor([0, 0, 1])
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        index_key: NestedKey = "_index",
        hash_key: NestedKey = "_hash",
        *,
        hash_module: Hash | Sequence[Hash] | None = None,
        hash_to_int: Callable[..., torch.Tensor] | None = None,
        aggregator: Hash | None = None,
        clone: bool = False,
        compare: bool = True,
    ) -> None:
        super().__init__()
        self.in_keys: list[NestedKey] = list(in_keys)
        if not self.in_keys:
            raise ValueError(
                "QueryModule needs the keys of the entries that identify an element, and got none. "
                'Fix: QueryModule(in_keys=["observation"]).'
            )
        several = hash_module is not None and not callable(hash_module)
        modules: list[Hash]
        if hash_module is None or callable(hash_module):
            modules = [hash_module or SipHash()] * len(self.in_keys)
        else:
            modules = list(hash_module)
        if len(modules) != len(self.in_keys):
            raise ValueError(
                f"A list of hash modules has one for each of in_keys, and there are {len(modules)} for "
                f"{len(self.in_keys)} keys. Fix: give as many, or a single module for all keys."
            )
        self.hash_modules = modules
        self.aggregator = aggregator or (SipHash() if several or hash_module is None else modules[0])
        self.hash_to_int = HashToInt() if hash_to_int is None else hash_to_int
        self.index_key, self.hash_key = index_key, hash_key
        self.clone, self.compare = clone, compare
        self._seen: dict[int, list[RowKey]] = {}

    @property
    def out_keys(self) -> list[NestedKey]:
        """The keys that a call writes."""
        return [self.index_key, self.hash_key]

    def __len__(self) -> int:
        return len(self.hash_to_int)  # type: ignore[arg-type]  # of a HashToInt; another one may not have it

    def clear(self) -> None:
        """Forget everything that was numbered."""
        self._seen.clear()
        if hasattr(self.hash_to_int, "clear"):
            self.hash_to_int.clear()

    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        extend: bool = True,
        write_hash: bool = True,
        clone: bool | None = None,
    ) -> TensorDictBase:
        """Write the place of each element.

        Args:
            tensordict: of any batch size.
            extend: whether data that is not known gets a place. Without it its place is one past the last.
            write_hash: whether to write the hash too.
            clone: see the class; None for what was said there.

        Returns:
            ``tensordict`` with ``index_key`` and ``hash_key``, int64 tensors of its batch size.

        Raises:
            KeyError: if an entry is missing.
            TypeError: if an entry is no tensor.
        """
        batch = tensordict.batch_size
        flat = tensordict.reshape(-1) if len(batch) != 1 else tensordict
        entries = [self._entry(flat, key) for key in self.in_keys]
        count = len(flat)
        parts = [module(entry) for module, entry in zip(self.hash_modules, entries, strict=True)]
        hashes = parts[0] if len(parts) == 1 else self.aggregator(torch.stack(parts, -1))
        if self.compare and count:
            hashes = self._told_apart(hashes, row_keys(entries, count), extend)
        index = self.hash_to_int(hashes, extend=extend)
        result = tensordict.copy() if (self.clone if clone is None else clone) else tensordict
        result.set(self.index_key, index.reshape(batch))
        if write_hash:
            result.set(self.hash_key, hashes.reshape(batch))
        return result

    def _entry(self, data: TensorDictBase, key: NestedKey) -> torch.Tensor:
        value = data.get(key, None)
        if value is None:
            found = ", ".join(repr(key) for key in data.keys(True, True)) or "none"
            raise KeyError(
                f"A query reads the entry {key!r}, which is not there. The entries are: {found}. "
                "Fix: add it, or name others with QueryModule(in_keys=...)."
            )
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"A query hashes tensors, and the entry {key!r} is a {type(value).__name__}. "
                "Fix: name the tensors in it, such as in_keys=[('agents', 'observation')]."
            )
        return value

    def _told_apart(self, hashes: torch.Tensor, keys: list[RowKey], extend: bool) -> torch.Tensor:
        """Replace the hash of data that has it in common with other data, by a hash of hash and rank."""
        found = hashes.tolist()
        seen = self._seen if extend else {value: list(self._seen.get(value, ())) for value in found}
        changed = False
        for row, (value, key) in enumerate(zip(found, keys, strict=True)):
            members = seen.setdefault(value, [])
            if key not in members:
                members.append(key)
            if rank := members.index(key):
                found[row] = int(siphash(row_bytes([torch.tensor([[value, rank]])]))[0])
                changed = True
        return torch.tensor(found, dtype=torch.int64, device=hashes.device) if changed else hashes
