"""Rows of batches and rollouts: entries carried from step to step, resets of some rows, and row-by-row rollouts.

A rollout of a single env fills one preallocated block row by row, without a TensorDict per step (see
:mod:`rlnb.envs.rows`). A transform takes part if it has a :class:`RowRule`, which does to rows what its ``_step`` and
``_reset`` do to TensorDicts.

One rule decides which transforms have one: **a class has a rule only if its own body declares it**, by
``_elementwise = True`` or by a ``_row_rule`` method. Declarations are not inherited. A subclass may therefore override
any method and be sure that it is called; if it changes nothing that matters to rows, it may repeat the declaration. One
transform without a rule, or with a method that is replaced on the object itself, sends the whole chain through
TensorDicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.block import EnvRows, LeafInfo
from rlnb.data.ted.keys import NestedKey, as_tuple

if TYPE_CHECKING:
    from rlnb.envs.transforms.transform import Transform

Leaves = dict[NestedKey, LeafInfo]
#: Changes "next" row t after a step; returns whether that ends the episode.
Step = Callable[[int], bool]
#: Changes root row t after a reset.
Reset = Callable[[int], None]
#: Makes the two for the rows before and after the transform.
Bind = Callable[[EnvRows, EnvRows], tuple[Step | None, Reset | None]]


class RowRule(NamedTuple):
    """What a transform does to rows.

    Args:
        bind: makes the functions that change rows.
        changed: entries that it overwrites. Their values before the transform have rows of their own.
        added: entries that exist only after the transform.
    """

    bind: Bind
    changed: list[NestedKey]
    added: list[NestedKey]


class Stage(NamedTuple):
    """A rule and the entries that it starts from: those of a root row, and those that only a "next" row has."""

    rule: RowRule
    root: Leaves
    next_only: Leaves


def row_rule(transform: Transform, output_spec: Composite) -> RowRule | None:
    """Return the rule of a transform above an env of this spec, if its class declares one in its own body."""
    declared = vars(type(transform))
    if "_row_rule" in declared:
        return transform._row_rule(output_spec)
    return value_by_value(transform, output_spec) if declared.get("_elementwise", False) else None


def value_by_value(transform: Transform, output_spec: Composite) -> RowRule | None:
    """Make the rule of a transform that only calls ``_apply_transform``, a function of one value.

    Returns ``None`` if one of its keys is missing, is an end signal, or occurs in two pairs of keys.
    """
    pairs = list(zip(transform.in_keys, transform.out_keys, strict=True))
    given, ends = _leaves(output_spec), set(output_spec["full_done_spec"].keys(True, True))
    for at, (in_key, out_key) in enumerate(pairs):
        others = [key for pair in (*pairs[:at], *pairs[at + 1 :]) for key in pair]
        if in_key not in given or in_key in ends or {in_key, out_key} & set(others):
            return None

    def bind(before: EnvRows, after: EnvRows) -> tuple[Step | None, Reset | None]:
        apply = transform._apply_transform
        steps = [(torch.from_numpy(before.next[k]), after.next[out]) for k, out in pairs]
        resets = [(torch.from_numpy(before.root[k]), after.root[out]) for k, out in pairs if k in before.root]

        def step(t: int) -> bool:
            for source, target in steps:
                target[t] = apply(source[t]).numpy()
            return False

        def reset(t: int) -> None:
            for source, target in resets:
                target[t] = apply(source[t]).numpy()

        return step if steps else None, reset if resets else None

    changed = [in_key for in_key, out_key in pairs if in_key == out_key]
    return RowRule(bind, changed, [out_key for in_key, out_key in pairs if in_key != out_key])


def stages(transforms: list[Transform], output_spec: Composite, root: Leaves, next_only: Leaves) -> list[Stage] | None:
    """Collect the rules of transforms, from the inside to the outside, above a base env of this spec.

    ``root`` are the entries of its root rows, ``next_only`` those that only its "next" rows have. Returns a stage for
    each transform, and a last one that describes the rows after all of them; ``None`` if a transform has no rule.
    """
    found: list[Stage] = []
    for transform in transforms:
        rule = row_rule(transform, output_spec)
        if rule is None:
            return None
        found.append(Stage(rule, root, next_only))
        output_spec = transform.transform_output_spec(output_spec)
        after = _leaves(output_spec)
        rewards = set(output_spec["full_reward_spec"].keys(True, True))
        root, next_only = dict(root), dict(next_only)
        for key in (*rule.changed, *rule.added):
            spec = after.get(key)
            info = None if spec is None else _info(spec)
            if info is None:
                return None
            (next_only if key in rewards else root)[key] = info
    return [*found, Stage(RowRule(lambda before, after: (None, None), [], []), root, next_only)]


def bind(chain: list[Stage], rows: EnvRows) -> tuple[EnvRows, list[Step], list[Reset]]:
    """Make the functions of all transforms for the rows of a block; ``chain`` is without the last stage.

    Returns the rows that the base env fills, the functions to call after its steps, and those to call after its resets,
    in order.
    """
    steps: list[Step] = []
    resets: list[Reset] = []
    for stage in reversed(chain):
        before = _rows_before(stage, rows)
        step, reset = stage.rule.bind(before, rows)
        steps += [] if step is None else [step]
        resets += [] if reset is None else [reset]
        rows = before
    return rows, steps[::-1], resets[::-1]


def _rows_before(stage: Stage, rows: EnvRows) -> EnvRows:
    """Return the rows before a transform: those after it, except for entries that it changes or adds."""
    root, following = dict(rows.root), dict(rows.next)
    for key in stage.rule.added:
        root.pop(key, None)
        following.pop(key)
    for key in stage.rule.changed:
        n = len(following[key])
        if key in stage.root:
            root[key] = _zeros(n, stage.root[key])
        following[key] = _zeros(n, stage.root[key] if key in stage.root else stage.next_only[key])
    return EnvRows(root, following)


def _zeros(n: int, info: LeafInfo) -> np.ndarray:
    shape, dtype = info
    return np.zeros((n, *shape), torch.empty(0, dtype=dtype).numpy().dtype)


def _leaves(output_spec: Composite) -> dict[NestedKey, TensorSpec]:
    return {key: output_spec[name][key] for name in output_spec for key in output_spec[name].keys(True, True)}


def _info(spec: TensorSpec) -> LeafInfo | None:
    """Return the shape and dtype of an entry, or ``None`` if numpy rows cannot hold it."""
    if spec.dtype is None or -1 in spec.shape:
        return None
    try:
        torch.empty(0, dtype=spec.dtype).numpy()
    except TypeError:
        return None
    return spec.shape, spec.dtype


class Carried:
    """The last values of entries that a transform writes for its own use in the next step.

    Like all state of a transform, they travel in the data: the root of step t+1 holds what step t wrote under "next".
    If the data has lost them, because a transform further out renames or removes the entry or because a worker receives
    only the action, the last value that was written is used.
    """

    def __init__(self) -> None:
        self._last: dict[NestedKey, torch.Tensor] = {}

    def get(self, tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor | None:
        """Return the value of the previous step, from the input of a step or reset; ``None`` if there is none yet."""
        value = tensordict.get(key, None)
        if value is None:
            value = self._last.get(key)
            if value is not None and value.shape[: tensordict.ndim] != tensordict.batch_size:
                return None  # a stateless env was given data of another batch size
        return value

    def put(self, data: TensorDictBase, key: NestedKey, value: torch.Tensor) -> None:
        """Write a value for the next step to the output of a step or reset."""
        self._last[key] = value
        data.set(key, value)

    def in_rows(self, key: NestedKey, rows: np.ndarray) -> Callable[[], np.ndarray]:
        """Make a function that reads the last value of an entry that is stored in numpy rows ``[n, ...]``.

        It returns always the same array, of shape ``[...]``. Writing to it changes the last value.
        """
        last, cell = self._last, np.zeros_like(rows[0])
        tensor = torch.from_numpy(cell)

        def read() -> np.ndarray:
            value = last.get(key)
            if value is not tensor:  # a step or reset of TensorDicts happened in between
                cell[...] = 0 if value is None else value.detach().cpu().numpy()
                last[key] = tensor
            return cell

        return read

    def restart(
        self,
        tensordict: TensorDictBase,
        data: TensorDictBase,
        key: NestedKey,
        fresh: torch.Tensor,
        reset_key: NestedKey | None = None,
    ) -> None:
        """Write a fresh value in the rows that are reset, and keep the previous value in the others.

        ``reset_key`` is the mask that selects them; ``None`` stands for the nearest one at or above the entry.
        """
        mask = find_mask(tensordict, key) if reset_key is None else tensordict.get(reset_key, None)
        old = None if mask is None else self.get(tensordict, key)
        self.put(data, key, choose_rows(mask, fresh, old, tensordict.ndim))


def find_mask(tensordict: TensorDictBase, key: NestedKey) -> torch.Tensor | None:
    """Find the "_reset" mask of an entry: the one at the root if present, otherwise the nearest one above the entry.

    Returns ``None`` if all rows are reset.
    """
    mask = tensordict.get("_reset", None)
    if mask is not None or isinstance(key, str):
        return mask
    path = as_tuple(key)
    for depth in range(len(path) - 1, 0, -1):
        mask = tensordict.get((*path[:depth], "_reset"), None)
        if mask is not None:
            return mask
    return None


def choose_rows(
    mask: torch.Tensor | None, fresh: torch.Tensor, old: torch.Tensor | None, batch_dims: int
) -> torch.Tensor:
    """Select new data in the rows that are reset, and old data in the others.

    ``mask``, of shape ``[*batch_size, ...]``, is ``True`` for rows to reset; ``None`` resets all of them. ``fresh`` and
    ``old``, ``None`` if there is none, have shape ``[*batch_size, ...]``.
    """
    if mask is None or old is None or old.shape != fresh.shape:
        return fresh
    mask, old = mask.to(fresh.device), old.to(fresh.device)
    while mask.ndim > batch_dims and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    if mask.shape != fresh.shape[: mask.ndim]:
        mask = mask.flatten(batch_dims).any(-1)
    return torch.where(mask.reshape((*mask.shape, *[1] * (fresh.ndim - mask.ndim))), fresh, old)
