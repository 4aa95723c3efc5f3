"""Explorer of replay buffers: the ring, what is written to it and what is sampled from it."""

from __future__ import annotations

from rlnb_widgets.buffer_explorer.model import ExplorerModel, Moment
from rlnb_widgets.buffer_explorer.record import explorer_model
from rlnb_widgets.buffer_explorer.widget import BufferExplorer

__all__ = ["BufferExplorer", "ExplorerModel", "Moment", "explorer_model"]
