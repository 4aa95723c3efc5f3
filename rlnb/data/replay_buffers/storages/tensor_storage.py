"""TensorStorage: columns of memory that is given."""

from __future__ import annotations

import math
from typing import Any

import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.columns import AnyColumn, Column, ObjectColumn
from rlnb.data.replay_buffers.forms import form_of
from rlnb.data.replay_buffers.storages.column_storage import ColumnStorage, device_of


class TensorStorage(ColumnStorage):
    """A storage in memory that is given.

    All of it counts as filled, and writing starts at its beginning.

    Args:
        storage: a tensor, TensorDict or PyTree whose leaves lead with the dimensions that count elements. It is written
            to in place where it is contiguous and on ``device``, and copied otherwise.
        max_size: how many elements to use, the first ones. Default: all.
        device: where the memory is; ``"auto"``: where it is given.
        ndim: how many leading dimensions count elements; the first of them is time.

    Raises:
        TypeError: if no memory is given.
        ValueError: if ``max_size`` is more than there is, or the leaves lead with different sizes.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> container = torch.zeros(10, 3, 64, 64, dtype=torch.uint8)
        >>> rb = ReplayBuffer(storage=TensorStorage(container))
        >>> rb.add(torch.full((3, 64, 64), 255, dtype=torch.uint8))
        0
        >>> len(rb), container[0, 0, 0, 0].item()
        (10, 255)
    """

    def __init__(
        self, storage: Any, max_size: int | None = None, *, device: torch.device | str = "cpu", ndim: int = 1
    ) -> None:
        if storage is None or isinstance(storage, (int, float, str)):
            raise TypeError(faults.no_container(storage))
        lead = form_of(storage, 0).lead(storage, ndim)
        size = lead.numel() if max_size is None else max_size
        super().__init__(size, device=device, ndim=ndim)
        others = tuple(lead[1:])
        if size > lead.numel():
            raise ValueError(faults.container_too_small(size, lead))
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
