"""FlatRows: TED data that stays in its flat form, on disk or in memory, and is made of it row by row when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.ted.columns import Branch, Column, Constant, Path, build
from rlnb.data.ted.layout import ROOT_KEY, Layout
from rlnb.data.ted.timeline import Timeline, bits


class FlatRows:
    """The steps of flat data, each made into TED when it is asked for.

    :meth:`Flat2TED.rows <rlnb.data.Flat2TED.rows>` makes one. The flat form holds each observation once and may lie in
    memory-mapped files; what is read of them is what the chosen steps need, and nothing else is kept but a few numbers
    for each step.

    Args:
        columns: of the flat form; their lengths fit the layout.
        layout: of it.
        timeline: the places of the steps.
        device: of what is made.

    Attributes:
        batch_size: of the TED data.

    Example:
        >>> from rlnb.data import Flat2TED, TED2Flat
        >>> from rlnb.envs import GymEnv
        >>> rollout = GymEnv("CartPole-v1").rollout(10)
        >>> rows = Flat2TED().rows(TED2Flat()(rollout))
        >>> rows[3:5]["next", "observation"].shape
        torch.Size([2, 4])
        >>> bool((rows[[7, 0, 7]] == rollout[[7, 0, 7]]).all())
        True
    """

    def __init__(
        self, columns: Mapping[Path, Column], layout: Layout, timeline: Timeline, device: torch.device | None
    ) -> None:
        self._columns, self._layout, self._timeline, self._device = columns, layout, timeline, device
        self.batch_size = torch.Size(layout.batch_size)
        names = {branch.path: branch.names for branch in layout.branches}.get(())
        at = torch.arange(layout.steps, device=timeline.slot.device).view(self.batch_size)
        self._at = TensorDict({"at": at}, self.batch_size, names=names)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.batch_size[0]

    def __getitem__(self, index: Any) -> TensorDictBase:
        """Make TED data of some steps.

        Args:
            index: as for a TensorDict of this batch size: a number, a slice, a list, a tensor, or a tuple of these.

        Returns:
            What the TED data would give at this index.

        Raises:
            IndexError: if there are no such steps.
        """
        chosen = self._at[index]
        steps = chosen.get("at").flatten()
        slots = self._timeline.slot[steps]
        in_order = self._timeline.place_in_order(steps)
        found: dict[Path, Column] = {}
        for path in self._layout.shared:
            found[path], found["next", *path] = (_some(self._columns[path], at) for at in (slots, slots + 1))
        for path, source in singles(self._layout).items():
            found[path] = _some(self._columns[source], in_order)
        for path in self._layout.unset:
            like = self._columns.get(path)
            feature = like.shape[1:] if isinstance(like, torch.Tensor) else (1,)
            found[path] = torch.zeros((len(steps), *feature), dtype=torch.bool, device=self._device)
        names = list(chosen.names) if chosen.batch_dims else []
        branches = [_renamed(branch, names, len(self.batch_size)) for branch in self._layout.branches]
        if not chosen.batch_dims:
            found = {path: column if isinstance(column, Constant) else column[0] for path, column in found.items()}
        return build(found, chosen.batch_size, branches, self._device)


def singles(layout: Layout) -> dict[Path, Path]:
    """For each entry of the TED that the flat form holds step by step, where it stands there.

    Args:
        layout: of the flat form.

    Returns:
        The paths in the flat form, by those in the TED.
    """
    found = {path: path for path in layout.root} | {path: (ROOT_KEY, *path) for path in layout.twice}
    return found | {("next", *path): path for path in layout.next}


def _some(column: Column, rows: torch.Tensor) -> Column:
    if isinstance(column, torch.Tensor):
        return take(column, rows)
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column


def take(column: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Copy some rows of a column, and read nothing else of it.

    Args:
        column: of the flat form, in memory or in a file.
        index: of the rows.

    Returns:
        A tensor in memory.
    """
    out = torch.empty((index.shape[0], *column.shape[1:]), dtype=column.dtype, device=column.device)
    if out.numel():
        torch.index_select(bits(column), 0, index, out=bits(out))
    return out


def _renamed(branch: Branch, names: list[str | None], dims: int) -> Branch:
    found = (*names, *branch.names[dims:]) if branch.names is not None else ()
    return Branch(branch.path, branch.extra, found if any(found) else None)


__all__ = ["FlatRows"]
