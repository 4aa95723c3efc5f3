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
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import plural, shorten
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.buffer_explorer.explain import explanation
from rlnb_widgets.buffer_explorer.model import explorer_model
from rlnb_widgets.buffer_explorer.parts import check_buffer
from rlnb_widgets.buffer_explorer.payload import payload
from rlnb_widgets.buffer_explorer.record import Options, Record
from rlnb_widgets.buffer_explorer.schema import ExplorerModel, What
from rlnb_widgets.buffer_explorer.static import explorer_svg
from rlnb_widgets.buffer_explorer.text import explorer_text
from rlnb_widgets.buffer_explorer.words import headline

__all__ = ["BufferExplorer"]

_HERE = Path(__file__).parent
_ORDERS = ("physical", "chronological")
_SECONDS = 1.0  # between two updates of the page while a cell runs


class BufferExplorer(TimeTraits, Visualizer):
    """Shows a replay buffer as a ring, and what happens to it.

    The ring has a cell for each row, or for several rows of a large buffer: the darker, the newer. It shows the cursor,
    the seam between newest and oldest, and trajectories as arcs. Below it are how often each element was drawn and how
    often that was to be expected; with a prioritized sampler the priorities, the sum tree and the importance weights;
    whether slices of a length are possible; the parts of the buffer with their settings, and its memory.

    The explorer notes what goes through its own methods, which do the same as those of the buffer and return the same:
    :meth:`add`, :meth:`extend`, :meth:`sample`, :meth:`update_priority`, :meth:`update_tensordict_priority` and
    :meth:`empty`. It can stand in for the buffer in a training loop. What others do to the buffer is seen by the next
    of these calls, or by :meth:`snapshot`, and :meth:`count` counts samples drawn elsewhere. The record is replayed
    under the playhead.

    ``link(explorer, player)`` ties the cell that is selected to the playhead of a ``RolloutPlayer`` of ``buffer[:]``;
    :meth:`player` makes such a player.

    Keys: the arrows move by a cell, up and down by ten, Home and End to the first and last filled one; space plays the
    record, Page Up and Page Down go a moment back and on, ``n`` and ``p`` to the next and previous mark, ``o`` changes
    the order, ``s`` selects the next element of the last sample.

    Args:
        buffer: A :class:`~rlnb.data.ReplayBuffer`. It is only looked at.
        end_key: The entry that says where trajectories end. Default: what a slice sampler reads, else ids, else
            ``("next", "done")``.
        traj_key: The entry with the ids of trajectories; it goes before ``end_key``.
        slice_len: Length of slices, to see whether they are possible. Default: what the sampler of the buffer draws.
        order: ``"physical"``, by index, or ``"chronological"``, the oldest first.
        moments: Most moments kept; of more every second one is dropped, again and again.

    Attributes:
        buffer: The buffer.
        model: The plain values shown, an `ExplorerModel`.
        selection: The row that is selected.
        selected_env: Its column, in a storage of several dimensions.

    Raises:
        TypeError: If `buffer` is no replay buffer, or an ensemble of several; or an argument is unknown.
        ValueError: If `order`, `slice_len` or `moments` makes no sense.

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
        self._record = Record(buffer, Options(end_key, traj_key, slice_len, moments))
        self._model: ExplorerModel | None = None
        self._sent: ExplorerModel | None = None
        self._sent_at, self._waiting = time.monotonic(), False
        super().__init__(length=1, fps=2.0, order=order)
        self._flush()

    # What is done to the buffer, and noted ----------------------------------------------------------------------------

    def add(self, data: Any) -> Any:
        """Write one element, as ``buffer.add`` does, and note it.

        Args:
            data: The element.

        Returns:
            Its index.
        """
        index = self.buffer.add(data)
        self._record.stored(index)
        self._note("add", "add")
        return index

    def extend(self, data: Any) -> torch.Tensor:
        """Write several elements, as ``buffer.extend`` does, and note it.

        Args:
            data: The elements.

        Returns:
            The index of each.
        """
        index: torch.Tensor = self.buffer.extend(data)
        self._record.stored(index)
        self._note("extend", f"extend by {plural(len(index), 'element')}")
        return index

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Draw elements, as ``buffer.sample`` does, count and note them.

        Args:
            batch_size: How many. Default: as the buffer was told.
            return_info: Whether to return what the sampler says beside the batch.

        Returns:
            The batch; or the batch and a dictionary.
        """
        batch, info = self.buffer.sample(batch_size, return_info=True)
        self._counted(info["index"], "sample")
        return (batch, info) if return_info else batch

    def count(self, sample: Any) -> None:
        """Count a sample that was drawn elsewhere.

        Args:
            sample: A TensorDict with ``"index"``, the dictionary that ``sample(return_info=True)`` returned, or the
                index itself.

        Raises:
            KeyError: If it has no ``"index"``.
            IndexError: If it has one that is none of an element; nothing is counted then.
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
                'The sample has no entry "index", so that it cannot be told which elements it holds. '
                "Fix: a TensorDictReplayBuffer, or count(info) with batch, info = buffer.sample(return_info=True)."
            )
        ndim = self.buffer.storage.ndim
        for _ in range(0 if isinstance(index, tuple) else self.buffer.storage.element_dims):
            index = index.select(-1 if ndim == 1 else -2, 0)  # it is repeated along the dimensions of an element
        return index

    def _counted(self, index: Any, label: str) -> None:
        drawn = self._record.drew(index)
        self._note("sample", f"{label} of {drawn:,}")

    def update_priority(self, index: Any, priority: Any) -> None:
        """Change priorities, as ``buffer.update_priority`` does, and note it.

        Args:
            index: Of the elements.
            priority: One for each, or one for all.
        """
        self.buffer.update_priority(index, priority)
        self._note("priority", "update_priority")

    def update_tensordict_priority(self, data: Any) -> None:
        """Change the priorities of a sample, as ``buffer.update_tensordict_priority`` does, and note it.

        Args:
            data: The sample, with its index and its priorities.
        """
        self.buffer.update_tensordict_priority(data)
        self._note("priority", "update_tensordict_priority")

    def empty(self) -> None:
        """Forget all elements, as ``buffer.empty`` does, and note it."""
        self.buffer.empty()
        self._note("empty", "empty")

    def snapshot(self, label: str = "snapshot") -> None:
        """Note how the buffer looks now, such as once in every iteration of a training loop.

        Args:
            label: What to call it.
        """
        self._note("snapshot", shorten(str(label), 60))

    def player(self, env: Any = None, **options: Any) -> Any:
        """Make a player of what is stored now, linked: the cell that is selected is the step that it shows.

        Args:
            env: As for ``RolloutPlayer``, to draw states.
            **options: As for ``RolloutPlayer``.

        Returns:
            The ``RolloutPlayer``.

        Raises:
            TypeError: If what is stored are no TensorDicts.
        """
        from rlnb_widgets.rollout_player import RolloutPlayer

        stored = self.buffer[:]
        if self.buffer.storage.ndim > 1:  # a player wants time last
            stored = stored.transpose(0, self.buffer.storage.ndim - 1)
        made = RolloutPlayer(stored, env, **options)
        link(self, made)
        return made

    def __len__(self) -> int:
        return len(self.buffer)

    # What is shown ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> ExplorerModel:
        """The plain values shown."""
        if self._record.catch_up():
            self._come_to_now()
        if self._model is None:
            self._model = explorer_model(self._record)
        return self._model

    def _note(self, what: What, label: str) -> None:
        if self._record.note(what, label):
            self._come_to_now()
        if time.monotonic() - self._sent_at > _SECONDS:
            self._flush()
        elif not self._waiting:
            # Of many calls in a cell the page hears once, when the cell is over. Without a loop nobody looks on, and
            # the faces bring themselves up to date.
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().call_soon(self._flush)
                self._waiting = True

    def _come_to_now(self) -> None:
        self._model = None
        self.length = len(self._record.moments)
        self.t = self.length - 1

    def _flush(self) -> None:
        """Bring what the page is sent up to date."""
        self._waiting = False
        if self._sent is self.model:
            return
        head, cells = payload(self.model)
        self._sent, self._sent_at = self.model, time.monotonic()
        with self.hold_sync():
            self._head, self._cells = head, cells
            self._label = f"BufferExplorer: {headline(self.model, self.model.moments[-1])}"

    @traitlets.validate("selection")
    def _row_in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), self._record.moments[-1].ring.size - 1))

    @traitlets.validate("selected_env")
    def _column_in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), self._record.moments[-1].ring.columns - 1))

    def _link_names(self, names: Sequence[str], others: Sequence[Visualizer]) -> dict[str, str]:
        # A player shows steps: it is tied to the cell, and not to the moments of the record.
        if any(other.has_trait("selected_env") and not other.has_trait("selection") for other in others):
            return {"t": "selection", "selected_env": "selected_env"}
        return super()._link_names(names, others)

    def _text(self) -> str:
        model = self.model  # it may add a moment, to which t then moves
        return explorer_text(model, self.t, self.order)

    def _svg(self) -> Svg:
        model = self.model
        return explorer_svg(model, self.t, self.order)

    def _explain(self) -> str:
        model = self.model
        return explanation(model, self.t)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page with the live explorer, which needs no kernel and no network.

        Args:
            path: Where to write it as well.
        """
        self._flush()
        return super().to_html(path)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._flush()
        return super()._repr_mimebundle_(**kwargs)


def _check_count(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < least:
        raise ValueError(f"{name} must be an integer of {least} or more, got {value!r}.")
