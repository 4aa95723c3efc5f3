"""Timeline of batched envs: what each env did and when, as measured."""

from __future__ import annotations

from rlnb_widgets.batched_timeline.failure import Failure, failure_of
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel, batch_run, timeline_model
from rlnb_widgets.batched_timeline.widget import BatchedEnvTimeline

__all__ = [
    "PHASES", "BatchRun", "BatchedEnvTimeline", "Failure", "TimelineModel", "batch_run", "failure_of", "timeline_model",
]  # fmt: skip
