"""Monitor of a training: curves while a cell runs, the agent as it was and is, and what it has learned."""

from __future__ import annotations

from rlnb_widgets.training_monitor.model import CurveModel, MonitorModel
from rlnb_widgets.training_monitor.series import Series
from rlnb_widgets.training_monitor.widget import TrainingMonitor

__all__ = ["CurveModel", "MonitorModel", "Series", "TrainingMonitor"]
