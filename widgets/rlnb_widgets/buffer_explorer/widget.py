"""The live buffer explorer: a widget that shows a buffer as it is written and sampled."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import traitlets

from rlnb.data.ted.keys import NestedKey
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.link import link
from rlnb_widgets._core.packing import AS_JSON, packed
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import number, plural, shorten
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.buffer_explorer.model import ExplorerModel, What
from rlnb_widgets.buffer_explorer.parts import check_buffer
from rlnb_widgets.buffer_explorer.payload import buffer_payload
from rlnb_widgets.buffer_explorer.record import BufferRecorder, Options, explorer_model
from rlnb_widgets.buffer_explorer.scene import buffer_svg, page_displays
from rlnb_widgets.buffer_explorer.text import buffer_text
from rlnb_widgets.buffer_explorer.words import buffer_explanation, buffer_headline

_HERE = Path(__file__).parent
_ORDERS = ("physical", "chronological")
_SECONDS = 1.0  # between two updates of the page while a cell runs


class BufferExplorer(TimeTraits, Visualizer):
    """Shows a replay buffer as a ring, and how it is written and sampled.

    The ring has a cell for each row, or for several rows of a large buffer; the newer a row, the stronger its colour.
    It shows the cursor, the seam between the newest and the oldest row, and trajectories as arcs. Tabs below it show
    the draws of each item and their expected number; with a prioritized sampler also the priorities, the sum tree and
    the importance weights; with a slice sampler whether slices of a length are possible; memory, and the components of
    the buffer with their settings.

    The explorer records calls of its own methods, which behave like those of the buffer: :meth:`add`, :meth:`extend`,
    :meth:`sample`, :meth:`update_priority`, :meth:`update_tensordict_priority` and :meth:`empty`. So it can replace the
    buffer in a training loop. Changes by other code appear with the next of these calls or with :meth:`snapshot`, and
    :meth:`count` counts samples that were drawn elsewhere. The record can be replayed.

    ``link(explorer, player)`` links the selected cell to the playhead of a ``RolloutPlayer`` of ``buffer[:]``;
    :meth:`player` makes such a player.

    Keys: the arrows move by one cell, up and down by ten, Home and End to the first and last filled cell; space plays
    the record, Page Up and Page Down move by one recorded state, ``n`` and ``p`` to the next and previous mark, ``o``
    changes the order, ``s`` selects the next item of the last sample.

    Args:
        buffer: A :class:`~rlnb.data.ReplayBuffer`. Showing it does not change it.
        end_key: Key of the end signals of trajectories. Default: the one that a slice sampler reads, else trajectory
            ids, else ``("next", "done")``.
        traj_key: Key of the trajectory ids; it takes precedence over ``end_key``.
        slice_len: Length of slices to check. Default: the length that the sampler of the buffer draws.
        order: ``"physical"``, by index, or ``"chronological"``, oldest first.
        moments: The most recorded states; beyond that every second one is dropped.

    Attributes:
        buffer: The buffer.
        model: The plain values that are shown, an `ExplorerModel`.
        selection: The selected row.
        selected_env: Its column, in a storage with several dimensions.

    Raises:
        TypeError: If `buffer` is not a replay buffer, or is an ensemble, or an argument is unknown.
        ValueError: If `order`, `slice_len` or `moments` is invalid.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(8), batch_size=2)
        >>> explorer = BufferExplorer(buffer)
        >>> done = torch.tensor([[False], [False], [True]] * 2)
        >>> for _ in range(2):
        ...     index = explorer.extend(TensorDict({"next": {"done": done}}, [6]))
        >>> print(repr(explorer).splitlines()[0])
        BufferExplorer: TensorDictReplayBuffer, 8 of 8 rows filled, next is row 4
        >>> explorer.model.moments[-1].lost
        '1 trajectory gone, 1 trajectory without its beginning'
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")

    selection = traitlets.Int(0).tag(sync=True)
    selected_env = traitlets.Int(0).tag(sync=True)
    order = traitlets.Enum(_ORDERS, default_value=_ORDERS[0]).tag(sync=True)
    _head = traitlets.Dict().tag(sync=True)
    _lists = traitlets.Dict().tag(**AS_JSON)  # of their own, since they hardly ever change
    _cells = traitlets.Bytes().tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        buffer: Any,
        *,
        end_key: NestedKey | None = None,
        traj_key: NestedKey | None = None,
        slice_len: int | None = None,
        order: str = "physical",
        moments: int = 64,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        check_buffer(buffer)
        if order not in _ORDERS:
            raise ValueError(f"order must be {' or '.join(map(repr, _ORDERS))}, got {order!r}.")
        _check_count("slice_len", slice_len, 1)
        _check_count("moments", moments, 2)
        self.buffer = buffer
        self._record = BufferRecorder(buffer, Options(end_key, traj_key, slice_len, moments))
        self._model: ExplorerModel | None = None
        self._sent: ExplorerModel | None = None
        self._sent_at, self._waiting = time.monotonic(), False
        super().__init__(length=1, fps=2.0, order=order)
        self._update_page()

    # Recorded calls of the buffer -------------------------------------------------------------------------------------

    def add(self, data: Any) -> Any:
        """Add one item, as ``buffer.add`` does, and record the call.

        Args:
            data: The item.

        Returns:
            Its index.
        """
        index = self.buffer.add(data)
        self._record.stored(index)
        self._note("add", "add")
        return index

    def extend(self, data: Any) -> torch.Tensor:
        """Add several items, as ``buffer.extend`` does, and record the call.

        Args:
            data: The items.

        Returns:
            The index of each.
        """
        index: torch.Tensor = self.buffer.extend(data)
        self._record.stored(index)
        self._note("extend", f"extend by {plural(len(index), 'item')}")
        return index

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Sample items, as ``buffer.sample`` does, count them and record the call.

        Args:
            batch_size: Number of items. Default: the batch size of the buffer.
            return_info: Whether to return the info of the sampler as well.

        Returns:
            The batch, or the batch and the info dictionary.
        """
        batch, info = self.buffer.sample(batch_size, return_info=True)
        self._counted(info["index"], "sample")
        return (batch, info) if return_info else batch

    def count(self, sample: Any) -> None:
        """Count a sample that was drawn elsewhere.

        Args:
            sample: A TensorDict with ``"index"``, the info dictionary of ``sample(return_info=True)``, or the index
                itself.

        Raises:
            KeyError: If it has no ``"index"``.
            IndexError: If an index is out of range; nothing is counted then.
        """
        self._counted(self._index_of(sample), "sample from elsewhere")

    def _index_of(self, sample: Any) -> Any:
        if isinstance(sample, (torch.Tensor, list, int)):
            return torch.as_tensor(sample)
        if isinstance(sample, tuple):
            return sample
        index = sample.get("index", None)
        if index is None:
            raise KeyError(
                'The sample has no entry "index", so that it cannot be told which items it holds. '
                "Fix: a TensorDictReplayBuffer, or count(info) with batch, info = buffer.sample(return_info=True)."
            )
        ndim = self.buffer.storage.ndim
        for _ in range(0 if isinstance(index, tuple) else self.buffer.storage.element_dims):
            index = index.select(-1 if ndim == 1 else -2, 0)  # it is repeated along the dimensions of an item
        return index

    def _counted(self, index: Any, label: str) -> None:
        drawn = self._record.drew(index)
        self._note("sample", f"{label} of {drawn:,}")

    def update_priority(self, index: Any, priority: Any) -> None:
        """Set priorities, as ``buffer.update_priority`` does, and record the call.

        Args:
            index: Indices of the items.
            priority: One priority per item, or one for all.
        """
        self.buffer.update_priority(index, priority)
        self._note("priority", f"update_priority{_range_words(priority)}")

    def update_tensordict_priority(self, data: Any) -> None:
        """Set the priorities of a sample, as ``buffer.update_tensordict_priority`` does, and record the call.

        Args:
            data: The sample, with its index and its priorities.
        """
        self.buffer.update_tensordict_priority(data)
        self._note("priority", "update_tensordict_priority")

    def empty(self) -> None:
        """Remove all items, as ``buffer.empty`` does, and record the call."""
        self.buffer.empty()
        self._note("empty", "empty")

    def snapshot(self, label: str = "snapshot") -> None:
        """Record the state of the buffer now, for example once per iteration of a training loop.

        Args:
            label: Label of the recorded state.
        """
        self._note("snapshot", shorten(str(label), 60))

    def player(self, env: Any = None, **options: Any) -> Any:
        """Return a player of the stored data, linked so that the selected cell is the step at its playhead.

        Args:
            env: The environment that draws the states; see ``RolloutPlayer``.
            **options: Further arguments of ``RolloutPlayer``.

        Returns:
            The ``RolloutPlayer``.

        Raises:
            TypeError: If the stored items are not TensorDicts.
        """
        from rlnb_widgets.rollout_player import RolloutPlayer

        stored = self.buffer[:]
        if self.buffer.storage.ndim > 1:  # a player needs time last
            stored = stored.transpose(0, self.buffer.storage.ndim - 1)
        made = RolloutPlayer(stored, env, **options)
        link(self, made)
        return made

    def __len__(self) -> int:
        return len(self.buffer)

    # What is shown ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> ExplorerModel:
        """The plain values that are shown."""
        if self._record.catch_up():
            self._come_to_now()
        if self._model is None:
            self._model = explorer_model(self._record)
        return self._model

    def _note(self, what: What, label: str) -> None:
        if self._record.note(what, label):
            self._come_to_now()
        if time.monotonic() - self._sent_at > _SECONDS:
            self._update_page()
        elif not self._waiting:
            # The page is updated once per cell, at its end. Without an event loop there is no page to update, and the
            # other views update themselves.
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().call_soon(self._update_page)
                self._waiting = True

    def _come_to_now(self) -> None:
        self._model = None
        self.length = len(self._record.moments)
        self.t = self.length - 1

    def _update_page(self) -> None:
        """Send the current state to the page."""
        self._waiting = False
        if self._sent is self.model:
            return
        head, cells = buffer_payload(self.model)
        self._sent, self._sent_at = self.model, time.monotonic()
        with self.hold_sync():
            self._lists = packed(page_displays(self.model))
            self._head, self._cells = head, cells
            self._label = f"BufferExplorer: {buffer_headline(self.model, self.model.moments[-1])}"

    @traitlets.validate("selection")
    def _row_in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), self._record.moments[-1].ring.size - 1))

    @traitlets.validate("selected_env")
    def _column_in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), self._record.moments[-1].ring.columns - 1))

    def _link_names(self, names: Sequence[str], others: Sequence[Visualizer]) -> dict[str, str]:
        # A player shows steps, so it is linked to the selected cell, not to the recorded states.
        if any(other.has_trait("selected_env") and not other.has_trait("selection") for other in others):
            return {"t": "selection", "selected_env": "selected_env"}
        return super()._link_names(names, others)

    def _text(self) -> str:
        model = self.model  # this may record a state, to which t then moves
        return buffer_text(model, self.t, self.order)

    def _svg(self) -> Svg:
        model = self.model
        return buffer_svg(model, self.t, self.order)

    def _explain(self) -> str:
        model = self.model
        return buffer_explanation(model, self.t)


def _check_count(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < least:
        raise ValueError(f"{name} must be an integer of {least} or more, got {value!r}.")


def _range_words(priority: Any) -> str:
    """Describe new priorities by their range, such as ``" with values between 0.25 and 4"``; empty without any."""
    values = torch.as_tensor(priority).double()
    if not values.numel():
        return ""
    low, high = number(float(values.min()), 3), number(float(values.max()), 3)
    return f" with values between {low} and {high}" if low != high else f" with the value {low}"
