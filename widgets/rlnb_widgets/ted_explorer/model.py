"""Conversion of a TensorDict to the model that a TED explorer shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tensordict import is_non_tensor, is_tensor_collection

from rlnb.data.saved import SavedTensorDict
from rlnb.data.ted.facts import Facts
from rlnb_widgets.ted_explorer.carry import carry_of
from rlnb_widgets.ted_explorer.difference import ted_differences
from rlnb_widgets.ted_explorer.entries import Path, TedEntry, ted_entries
from rlnb_widgets.ted_explorer.episodes import boundaries, ends_by_kind, facts_of, stepped_past
from rlnb_widgets.ted_explorer.measure import measure
from rlnb_widgets.ted_explorer.memory import sharing_of
from rlnb_widgets.ted_explorer.overlay import problems_of
from rlnb_widgets.ted_explorer.schema import Boundary, Carry, Cell, Row, TedModel, Verdict
from rlnb_widgets.ted_explorer.verdicts import verdicts_of

NEXT = frozenset({"next"})

NOT_A_TED = (
    'This TensorDict has no "next", so it is not an episode in TED form; its entries are shown in one column. '
    "A rollout, a collector batch or a sample of stored transitions has one."
)
SAVED = (
    "This is a SavedTensorDict: its tensors are in a file, and none was loaded. "
    "TEDExplorer(saved.load()) shows their values."
)


def ted_model(
    td: Any,
    spec: Any = None,
    other: Any = None,
    *,
    action_keys: Iterable[Any] = ("action",),
    reward_keys: Iterable[Any] = ("reward",),
) -> TedModel:
    """Build the model of TED data; the arguments are those of `TEDExplorer`. It holds no tensors.

    Raises:
        TypeError: If ``td`` or ``other`` is not a TensorDict. A SavedTensorDict is shown without loading it.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> obs = torch.arange(4.0)
        >>> td = TensorDict({"x": obs[:3], "next": {"x": obs[1:], "reward": torch.ones(3, 1)}}, [3])
        >>> ted_model(td).row("x").carry.holds
        True
    """
    if isinstance(td, SavedTensorDict) and other is None and spec is None:
        return _saved(td)
    for name, value in (("td", td), ("other", other)):
        if not is_tensor_collection(value) and not (name == "other" and value is None):
            raise TypeError(
                f"{name} must be a TensorDict such as env.rollout(...) returns, got {type(value).__name__}."
                + (" Wrap the dict: TensorDict(data, batch_size=[T])." if isinstance(value, dict) else "")
                + (f" Fix: {name}.load()." if isinstance(value, SavedTensorDict) else "")
            )
    following = next_of(td)
    has_time = following is not None and len(td.batch_size) > 0
    episodes = _episodes(td, following) if has_time else _Episodes()
    problems, unchecked = problems_of(spec, td, following) if spec is not None else ({}, ())
    differs = ted_differences(td, other) if other is not None else {}
    keys = _names(action_keys), _names(reward_keys)
    shared = sharing_of(td, other) if other is not None else {}
    rows = _with_sums([_told(row, shared) for row in _rows(td, following, episodes.facts, problems, differs, keys)])
    return TedModel(
        is_ted=following is not None,
        batch=tuple(int(size) for size in (td.batch_size[:-1] if has_time else td.batch_size)),
        steps=int(td.batch_size[-1]) if has_time else None,
        rows=rows,
        nbytes=sum(cell.nbytes or 0 for row in rows if row.leaf for cell in (row.root, row.next) if cell),
        boundaries=episodes.boundaries,
        ends=episodes.ends,
        past=episodes.past,
        verdicts=episodes.verdicts,
        notes=(*_notes(td, following), *_shared_note(shared), *episodes.doubts, *unchecked),
        compared=other is not None,
        checked=spec is not None,
    )


def _saved(saved: SavedTensorDict) -> TedModel:
    """Build the model of a TensorDict in a file from shapes and dtypes alone."""

    def in_file(cell: Cell | None) -> Cell | None:
        return cell and replace(cell, device=place, storage="saved")

    place = next((str(meta.device) for _, meta in saved.items_meta()), "cpu")
    no_keys: frozenset[str | Path] = frozenset()
    found = _rows(saved.to("meta"), None, None, {}, {}, (no_keys, no_keys))
    rows = [replace(row, root=in_file(row.root)) for row in found]
    nbytes = sum(row.root.nbytes or 0 for row in rows if row.leaf and row.root)
    return TedModel(False, tuple(saved.batch_size), None, _with_sums(rows), nbytes, notes=(SAVED,))


def _told(row: Row, shared: Mapping[Path, str]) -> Row:
    """Set which memory the entries of a row share."""
    if not shared or not row.leaf:
        return row
    root, following = shared.get(row.path, ""), shared.get(("next", *row.path), "")
    return replace(
        row, root=row.root and replace(row.root, sharing=root), next=row.next and replace(row.next, sharing=following)
    )


def _shared_note(shared: Mapping[Path, str]) -> tuple[str, ...]:
    if not shared:
        return ()
    count = f"{len(shared)} tensors are" if len(shared) > 1 else "1 tensor is"
    return (f"{count} in memory that the other TensorDict uses, too: what is written to one is read from both.",)


class _Episodes(NamedTuple):
    """What is found along the time dimension; empty for data without one."""

    facts: Facts | None = None
    boundaries: tuple[Boundary, ...] = ()
    ends: int = 0
    past: tuple[tuple[int, int], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    doubts: tuple[str, ...] = ()


def _episodes(td: Any, following: Any) -> _Episodes:
    verdicts: tuple[Verdict, ...] = ()
    doubts: tuple[str, ...] = ()
    try:
        verdicts = verdicts_of(td)
    except Exception as error:  # malformed data must still be shown
        doubts = (f"The rules of TED could not be checked: {type(error).__name__}.",)
    found, ends = boundaries(td, following)
    return _Episodes(facts_of(td, following), found, ends, stepped_past(td), verdicts, doubts)


def _rows(
    td: Any,
    following: Any,
    facts: Facts | None,
    problems: Mapping[Path, Any],
    differs: Mapping[Path, Any],
    keys: tuple[frozenset[str | Path], frozenset[str | Path]],
) -> list[Row]:
    """Return a row for each entry of the root or of ``"next"``; ``keys`` are those of actions and of rewards."""
    dims, has_time = len(td.batch_size), following is not None and len(td.batch_size) > 0
    before = {entry.path: entry for entry in ted_entries(td, NEXT if following is not None else frozenset())}
    after = {} if following is None else {entry.path: entry for entry in ted_entries(following)}
    rows = []
    for path, leaf in _order(before, after, problems, differs):
        old, new = before.get(path), after.get(path)
        only_nodes = not leaf and all(entry is None or entry.kind == "node" for entry in (old, new))
        silent = following is None or only_nodes
        rows.append(
            Row(
                path=path,
                leaf=leaf,
                root=None if old is None else measure(old, dims, has_time),
                next=None if new is None else measure(new, dims, has_time),
                carry=Carry() if silent else carry_of(old, new, facts, *keys),
                problems=problems.get(path, ()),
                differences=differs.get(path, ()),
            )
        )
    return rows


def next_of(td: Any) -> Any:
    """Return the ``"next"`` of TED data; None if there is none, or it is not a TensorDict."""
    if "next" not in set(td.keys()):
        return None
    following = td.get("next")
    return following if is_tensor_collection(following) and not is_non_tensor(following) else None


def _order(*found: Mapping[Path, Any]) -> list[tuple[Path, bool]]:
    """Merge the paths of all sides into one tree, in the order of the data; return each with whether it is a leaf."""
    tree: dict[str, Any] = {}
    nodes = set()
    for side in found:
        for path, entry in side.items():
            level = tree
            for key in path:
                level = level.setdefault(key, {})
            if isinstance(entry, TedEntry) and entry.kind == "node":
                nodes.add(path)
    out: list[tuple[Path, bool]] = []

    def visit(level: dict[str, Any], prefix: Path) -> None:
        for key, below in level.items():
            path = (*prefix, key)
            out.append((path, not below and path not in nodes))
            visit(below, path)

    visit(tree, ())
    return out


def _with_sums(rows: list[Row]) -> tuple[Row, ...]:
    """Set the bytes of each node to the sum over the leaves below it."""
    sums: dict[tuple[str, Path], int] = {}
    for row in rows:
        for side, cell in (("root", row.root), ("next", row.next)):
            if row.leaf and cell is not None:
                for depth in range(1, len(row.path)):
                    key = (side, row.path[:depth])
                    sums[key] = sums.get(key, 0) + (cell.nbytes or 0)

    def summed(cell: Cell | None, side: str, path: Path) -> Cell | None:
        return None if cell is None else replace(cell, nbytes=sums.get((side, path), 0))

    return tuple(
        row
        if row.leaf
        else replace(row, root=summed(row.root, "root", row.path), next=summed(row.next, "next", row.path))
        for row in rows
    )


def _notes(td: Any, following: Any) -> tuple[str, ...]:
    if not list(td.keys()) and not hasattr(td, "tensordicts"):
        return ("This TensorDict is empty: it has no entries.",)
    if following is None:
        return (NOT_A_TED,)
    if not td.batch_size:
        return (
            "The batch size is [], so this is a single step without a time dimension: "
            "there is no next row to compare with.",
        )
    if not ends_by_kind(td, following):
        return ('There is no done flag in "next", so all steps are taken for one episode.',)
    return ()


def _names(keys: Iterable[Any]) -> frozenset[str | Path]:
    return frozenset(tuple(key) if isinstance(key, (tuple, list)) else str(key) for key in keys)
