"""Conversion of the leaves of a rollout to numpy arrays, with a reason for each unreadable leaf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from rlnb.data.ted.ragged import values_of
from rlnb_widgets._core.text import key_text, number, shorten

Key = tuple[str, ...]
_MAX_TEXTS = 256
_SHOWN = 4
_MAX_LEAVES = 400


@dataclass(frozen=True, eq=False)
class RolloutLeaf:
    """One entry of the rollout."""

    key: Key  #: its path, with ``"next"`` first if the entry is below it
    kind: str  #: ``"number"``, or ``"text"`` for non-tensors and entries of varying size
    dtype: str  #: name of the torch dtype or Python type
    shape: tuple[int, ...]  #: shape of one step's value
    values: np.ndarray  #: for numbers ``[E, T, *shape]``; for text the index into `texts`, ``[E, T]``
    texts: tuple[str, ...] = ()  #: the distinct texts
    absent: tuple[int, ...] = ()  #: rows of environments that do not have the entry
    #: index of the 1 if every row is one-hot, ``[E, T]``, -1 in padding; else None. See `with_hot`.
    hot: np.ndarray | None = None
    #: the size that varies, ``[E, T]`` (the number of elements if several do); None if none varies
    sizes: np.ndarray | None = None

    @property
    def written(self) -> tuple[str, ...]:
        """The distinct texts as they are shown: strings in quotes, descriptions without."""
        return self.texts if self.sizes is not None else tuple(map(repr, self.texts))

    @property
    def is_next(self) -> bool:
        """Whether the leaf is below ``"next"``."""
        return self.key[0] == "next"

    @property
    def base(self) -> Key:
        """The path without the leading ``"next"``."""
        return self.key[1:] if self.is_next else self.key

    def text_at(self, env: int, t: int) -> str:
        """Return the value of one step as text, truncated."""
        if env in self.absent:
            return "—"
        if self.kind == "text":
            return shorten(self.written[int(self.values[env, t])], 40)
        if self.hot is not None and self.shape[0] > _SHOWN:
            return f"one-hot [{self.shape[0]}], 1 at {self.hot[env, t]}"
        values = self.columns()[env, t]
        if len(self.shape) >= 2 and values.size > _SHOWN:
            return f"{self.dtype} {list(self.shape)}"
        shown = ", ".join(number(v, 4) for v in values[:_SHOWN])
        if not self.shape or self.shape == (1,):
            return shown
        return f"[{shown}]" if values.size <= _SHOWN else f"[{shown}, … {values.size} in all]"

    def columns(self) -> np.ndarray:
        """Return the values as ``[E, T, F]``."""
        return self.values.reshape(*self.values.shape[:2], -1)


def with_hot(leaf: RolloutLeaf, padding: np.ndarray) -> RolloutLeaf:
    """Fill in `RolloutLeaf.hot` if all rows but padding are one-hot: integers, a single 1 among zeros.

    Example:
        >>> states = np.eye(3, dtype=np.int64)[[[0, 2, 2]]]
        >>> leaf = RolloutLeaf(("observation",), "number", "int64", (3,), states)
        >>> with_hot(leaf, np.array([[False, False, True]])).hot
        array([[ 0,  2, -1]])
    """
    data = leaf.values
    if leaf.kind != "number" or len(leaf.shape) != 1 or leaf.shape[0] < 2 or data.dtype.kind not in "biu":
        return leaf
    rows = data[~padding]
    single = (rows != 0).sum(-1) == 1
    if not len(rows) or not single.all() or not (rows.max(-1) == 1).all():
        return leaf
    return replace(leaf, hot=np.where(padding, -1, data.argmax(-1)))


def members(leaves: Mapping[Key, RolloutLeaf], name: str) -> tuple[RolloutLeaf, ...]:
    """Return the members of a Gymnasium ``Tuple``, stored under ``(name, "0")`` and so on; none if one is no number."""
    found: list[RolloutLeaf] = []
    while (leaf := leaves.get((name, str(len(found))))) is not None:
        found.append(leaf)
    return tuple(found) if all(leaf.kind == "number" for leaf in found) else ()


def steps_shape(rollout: Any) -> tuple[int, int]:
    """Return (number of environments, number of steps); all batch dimensions but the last count as environments.

    Raises:
        TypeError: If it is not a TensorDict.
        ValueError: If it has no step.

    Example:
        >>> from tensordict import TensorDict
        >>> steps_shape(TensorDict({}, [2, 3, 50]))
        (6, 50)
    """
    if not isinstance(rollout, TensorDictBase):
        raise TypeError(
            f"RolloutPlayer plays a TensorDict with batch size [T] or [B, T], got {type(rollout).__name__}. "
            "Pass what `env.rollout(...)`, a collector or a replay buffer returns."
        )
    shape = tuple(rollout.batch_size)
    if not shape:
        raise ValueError(
            "RolloutPlayer needs a time dimension, got a TensorDict with batch size []. "
            "It looks like a single step: stack several, or add the dimension with `td.unsqueeze(0)`."
        )
    if 0 in shape:
        raise ValueError(f"RolloutPlayer needs at least one step, got a TensorDict with batch size {list(shape)}.")
    return int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]


def read_leaves(rollout: TensorDictBase, envs: np.ndarray) -> tuple[list[RolloutLeaf], list[str]]:
    """Read all leaves of the environments ``envs`` (flat indices), with a sentence for each that cannot be shown."""
    count, steps = steps_shape(rollout)
    leaves: list[RolloutLeaf] = []
    problems: list[str] = []
    magnitudes: list[Key] = []
    for key, value in _walk(rollout, (), rollout.ndim):
        if len(leaves) == _MAX_LEAVES:
            problems.append(f"Only the first {_MAX_LEAVES} entries are shown.")
            break
        try:
            if isinstance(value, Exception):
                raise value
            leaves.append(_leaf(key, value, rollout.ndim, count, steps, envs))
            if isinstance(value, torch.Tensor) and value.is_complex():
                magnitudes.append(key)
        except Exception as error:  # one unreadable entry must not hide the others
            problems.append(f"{_shown(key)} cannot be shown: {shorten(str(error), 160)}")
    problems += _magnitudes_note(magnitudes) + _partial_keys(rollout)
    return leaves, problems


def _shown(key: Key) -> str:
    return shorten(key_text(key), 80)


def _walk(td: Any, prefix: Key, dims: int) -> Iterator[tuple[Key, Any]]:
    for name in sorted(td.keys(), key=lambda k: (str(k) == "next", str(k))):
        key = (*prefix, str(name))
        try:
            value = td.get(name)
        except Exception as error:
            yield key, _step_by_step(td, name, dims, error)
            continue
        if is_tensor_collection(value) and not is_non_tensor(value):
            yield from _walk(value, key, dims)
        else:
            yield key, value


def _step_by_step(td: Any, name: str, dims: int, error: Exception) -> Any:
    """Return an array of the values at each step if a lazy stack cannot stack them, or the error."""
    if not isinstance(td, LazyStackedTensorDict):
        return error
    try:
        return values_of(td, name, dims)
    except Exception:
        return error


def _leaf(key: Key, value: Any, dims: int, count: int, steps: int, envs: np.ndarray) -> RolloutLeaf:
    if isinstance(value, np.ndarray):
        return _varying_leaf(key, value.reshape(count, steps)[envs])
    if is_non_tensor(value):
        return _text_leaf(key, value, count, steps, envs)
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"it is a {type(value).__name__}")
    if value.is_nested or value.layout != torch.strided:
        raise TypeError(f"it is a {'nested' if value.is_nested else 'sparse'} tensor")
    dtype = str(value.dtype).removeprefix("torch.")
    data = value.detach().reshape(count, steps, *value.shape[dims:])
    data = data[torch.as_tensor(envs, device=data.device)].cpu()
    if data.is_complex():
        data = data.abs()
        dtype += ", shown as its magnitude"
    if data.dtype in (torch.bfloat16, torch.float16):
        data = data.float()
    array = data.numpy()
    return RolloutLeaf(key, "number", dtype, tuple(array.shape[2:]), array)


def _varying_leaf(key: Key, values: np.ndarray) -> RolloutLeaf:
    """Return an entry of varying size, given as tensors ``[E, T]``, as text."""
    texts, sizes, dtype = described(values, _MAX_TEXTS)
    codes = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    index = np.array([codes[text] for text in texts], np.int32).reshape(values.shape)
    return RolloutLeaf(key, "text", f"{dtype}, sizes vary", (), index, tuple(codes), sizes=sizes)


def _text_leaf(key: Key, value: Any, count: int, steps: int, envs: np.ndarray) -> RolloutLeaf:
    objects = np.empty(count * steps, dtype=object)
    flat = list(_flatten(value.tolist() if hasattr(value, "tolist") else value))
    if len(flat) == 1:
        flat *= count * steps
    if len(flat) != count * steps:
        raise ValueError(f"it holds {len(flat)} objects for {count * steps} steps")
    objects[:] = flat
    chosen = objects.reshape(count, steps)[envs].ravel()
    codes: dict[str, int] = {}
    index = np.empty(chosen.size, np.int32)
    for i, item in enumerate(chosen):
        text = shorten(item if isinstance(item, str) else _plain(item), 80)
        if text not in codes and len(codes) >= _MAX_TEXTS:
            text = "…"
        index[i] = codes.setdefault(text, len(codes))
    kinds = sorted({type(item).__name__ for item in chosen[:1000]})
    return RolloutLeaf(key, "text", " | ".join(kinds), (), index.reshape(len(envs), steps), tuple(codes))


def _plain(item: Any) -> str:
    # The default repr holds an address, which would differ from run to run.
    text = repr(item)
    return f"<{type(item).__name__}>" if " at 0x" in text else text


def _flatten(nested: Any) -> Iterator[Any]:
    if isinstance(nested, list):
        for item in nested:
            yield from _flatten(item)
    else:
        yield nested


def _magnitudes_note(keys: list[Key]) -> list[str]:
    if not keys:
        return []
    names = ", ".join(map(_shown, keys[:_SHOWN]))
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return [f"{names}{more} {'is' if len(keys) == 1 else 'are'} complex: magnitudes are shown in place of the numbers."]


def _partial_keys(rollout: TensorDictBase) -> list[str]:
    if not isinstance(rollout, LazyStackedTensorDict):
        return []
    everywhere = set(map(str, rollout.keys()))
    somewhere = {str(k) for td in rollout.tensordicts for k in td.keys()}  # noqa: SIM118 - iterating a TensorDict yields rows
    return [f"{_shown((k,))} is in some of the stacked entries only." for k in sorted(somewhere - everywhere)]


def described(values: np.ndarray, most: int) -> tuple[list[str], np.ndarray, str]:
    """Return a text for each value, the size that varies, ``[E, T]``, and the dtypes.

    Values are tensors, lists of tensors or None, as objects ``[E, T]``. If there are more than ``most`` different
    texts, they are the shapes alone. If several sizes vary, the number of elements is returned.

    Example:
        >>> import torch
        >>> values = np.empty((1, 2), object)
        >>> values[0, 0], values[0, 1] = torch.zeros(1, 2), torch.ones(3, 2)
        >>> texts, sizes, dtype = described(values, 9)
        >>> texts, sizes.tolist(), dtype
        (['[1, 2]: 0, 0', '[3, 2]: 1, 1, 1, 1, … (mean 1)'], [[1, 3]], 'float32')
    """
    rows = [_parts(value) for value in values.ravel()]
    texts = [", ".join(map(_with_numbers, row)) for row in rows]
    if len(set(texts)) > most:
        texts = [", ".join(map(_shape, row)) for row in rows]
    dtypes = {str(part.dtype).removeprefix("torch.") for row in rows for part in row if part is not None}
    return texts, _sizes(rows).reshape(values.shape), " | ".join(sorted(dtypes))


def _parts(value: Any) -> list[Any]:
    return [part for below in value for part in _parts(below)] if isinstance(value, list) else [value]


def _shape(part: Any) -> str:
    return "missing" if part is None else str(list(part.shape))


def _with_numbers(part: Any) -> str:
    if part is None:
        return "missing"
    flat = part.detach().flatten()[:_SHOWN].cpu().tolist()
    shown = ", ".join(str(v) if isinstance(v, (bool, complex)) else number(v, 4) for v in flat)
    # The mean distinguishes values whose first numbers are equal.
    more = f", … (mean {number(_mean(part), 4)})" if part.numel() > _SHOWN else ""
    return f"{_shape(part)}: {shown}{more}".removesuffix(": ")


def _mean(part: Any) -> float:
    part = part.detach()
    return float((part.abs() if part.is_complex() else part).double().mean())


def _sizes(rows: list[list[Any]]) -> np.ndarray:
    """Return the size of the one dimension that varies, else the number of elements."""
    shapes = [tuple(row[0].shape) for row in rows if len(row) == 1 and row[0] is not None]
    if len(shapes) == len(rows) and len(set(map(len, shapes))) == 1:
        varying = [sizes for sizes in zip(*shapes, strict=True) if len(set(sizes)) > 1]
        if len(varying) == 1:
            return np.array(varying[0], np.int64)
    return np.array([sum(0 if part is None else part.numel() for part in row) for row in rows], np.int64)
