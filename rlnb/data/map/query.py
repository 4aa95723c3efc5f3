"""QueryModule: maps the data of a TensorDict to indices of a storage, by hash."""

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
    """Numbers hashes consecutively in order of first appearance, as indices of a storage.

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
        """Look up the numbers of hashes, int64 ``[n]``.

        With ``extend``, unknown hashes get a new number. Without it, they get the number of known hashes, which is one
        past the last index in use.
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
        """Remove all hashes."""
        self._index_of.clear()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the hashes in the order of their numbers, as ``"keys"``."""
        return {"keys": torch.tensor(list(self._index_of), dtype=torch.int64)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> None:
        """Load what :meth:`state_dict` of another :class:`HashToInt` returned; ``assign`` has no effect.

        Raises:
            KeyError: If ``"keys"`` is missing, or with ``strict`` if there are other entries.
        """
        if "keys" not in state_dict or (strict and len(state_dict) > 1):
            raise KeyError(
                f'The state of a HashToInt must have one entry, "keys", got {sorted(state_dict)}. '
                "Fix: pass a dictionary from HashToInt.state_dict()."
            )
        self._index_of = {value: number for number, value in enumerate(state_dict["keys"].tolist())}


class QueryModule(nn.Module):
    """Finds the storage index of each row of a TensorDict from the data under some of its keys.

    Equal data has the same index, and different data has different indices: where hashes collide, the data itself is
    compared (see ``compare``).

    Args:
        in_keys: keys of the entries that identify a row.
        index_key: key that the indices are written to.
        hash_key: key that the hashes are written to.
        hash_module: hashes an entry of shape ``[n, *shape]`` to ``[n]``; or a list with one module for each of
            ``in_keys``. Default: :class:`SipHash`.
        hash_to_int: numbers the hashes. Default: :class:`HashToInt`.
        aggregator: combines the hashes of several entries, shape ``[n, len(in_keys)]``, to ``[n]``. Default: the
            ``hash_module`` if it is a single one, else :class:`SipHash`.
        clone: whether a call returns a shallow copy and leaves its input unchanged.
        compare: whether to compare the data where hashes agree. Set to False for a hash that maps similar states to one
            index on purpose.

    Raises:
        ValueError: If there are no keys, or the number of hash modules differs from that of the keys.

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
                "QueryModule needs the keys of the entries that identify a row, got none. "
                'Fix: QueryModule(in_keys=["observation"]).'
            )
        several = hash_module is not None and not callable(hash_module)
        given: Any = SipHash() if hash_module is None else hash_module
        modules: list[Hash] = list(given) if several else [given] * len(self.in_keys)
        if len(modules) != len(self.in_keys):
            raise ValueError(
                f"A list of hash modules must have one module for each of in_keys, got {len(modules)} for "
                f"{len(self.in_keys)} keys. Fix: pass one for each key, or a single module for all keys."
            )
        self.hash_modules = modules
        self.aggregator = aggregator or (SipHash() if several else modules[0])
        self.hash_to_int = HashToInt() if hash_to_int is None else hash_to_int
        self.index_key, self.hash_key = index_key, hash_key
        self.clone, self.compare = clone, compare
        self._seen: dict[int, list[RowKey]] = {}

    @property
    def out_keys(self) -> list[NestedKey]:
        """Keys of the entries that a call writes."""
        return [self.index_key, self.hash_key]

    def __len__(self) -> int:
        return len(self.hash_to_int)  # type: ignore[arg-type]  # HashToInt has a length; a user's own may not

    def clear(self) -> None:
        """Remove all rows."""
        self._seen.clear()
        if hasattr(self.hash_to_int, "clear"):
            self.hash_to_int.clear()

    def forward(
        self, tensordict: TensorDictBase, *, extend: bool = True, write_hash: bool = True, clone: bool | None = None
    ) -> TensorDictBase:
        """Write the storage index of each row.

        Args:
            tensordict: the rows, of any batch size.
            extend: whether unknown data gets a new index. If False, its index is one past the last.
            write_hash: whether to write the hashes as well.
            clone: see the class. Default: the value given there.

        Returns:
            ``tensordict`` with ``index_key`` and ``hash_key``, int64 tensors of its batch size.

        Raises:
            KeyError: If an entry is missing.
            TypeError: If an entry is not a tensor.
        """
        batch = tensordict.batch_size
        flat = tensordict.reshape(-1) if len(batch) != 1 else tensordict
        entries = [self._entry(flat, key) for key in self.in_keys]
        count = len(flat)
        parts = [module(entry) for module, entry in zip(self.hash_modules, entries, strict=True)]
        hashes = parts[0] if len(parts) == 1 else self.aggregator(torch.stack(parts, -1))
        if self.compare and count:
            hashes = self._distinct(hashes, row_keys(entries, count), extend)
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
                f"QueryModule reads the entry {key!r}, which is missing. The entries are: {found}. "
                "Fix: add it, or choose other entries with QueryModule(in_keys=...)."
            )
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"QueryModule hashes tensors, but the entry {key!r} is a {type(value).__name__}. "
                "Fix: name the tensors in it, such as in_keys=[('agents', 'observation')]."
            )
        return value

    def _distinct(self, hashes: torch.Tensor, keys: list[RowKey], extend: bool) -> torch.Tensor:
        """Resolve collisions: of rows that share a hash, all but the first get a hash of hash and rank."""
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
