"""Timeline of batched envs and collectors: what each env, worker and learner did and when, as measured."""

from __future__ import annotations

from rlnb_widgets.batched_timeline.collector_model import (
    CollectorRun,
    CollectorsModel,
    collector_run,
    collectors_model,
)
from rlnb_widgets.batched_timeline.failure import Failure, failure_of
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel, batch_run, timeline_model
from rlnb_widgets.batched_timeline.widget import BatchedEnvTimeline

__all__ = [
    "PHASES", "BatchRun", "BatchedEnvTimeline", "CollectorRun", "CollectorsModel", "Failure", "TimelineModel",
    "batch_run", "collector_run", "collectors_model", "failure_of", "timeline_model",
]  # fmt: skip
