"""Text views of the timeline of collectors: a ``repr`` without durations, and a description with them."""

from __future__ import annotations

import math

from rlnb_widgets._core.text import duration, percent, plural, short_rate, shorten, table
from rlnb_widgets.batched_timeline.collector_model import LEARNER_PHASES, WORKER_PHASES, CollectorRun, CollectorsModel

_MOST_RUNS = 12


def frames_rate_text(run: CollectorRun) -> str:
    """Format the frames per second with three digits."""
    return f"{short_rate(run.rate)} frames/s" if math.isfinite(run.rate) else "no batch"


def collectors_headline(model: CollectorsModel) -> str:
    """Return the headline, without times."""
    runs = model.runs
    if len(runs) == 1:
        return _counts(runs[0], ", ")
    return f"{len(runs)} runs, " + " and ".join(run.label for run in runs[:_MOST_RUNS])


def _counts(run: CollectorRun, separator: str) -> str:
    parts = [run.name, plural(run.workers, "worker"), plural(run.batches, "batch", "batches")]
    return separator.join([*parts, f"{plural(run.updates, 'update')} of the weights"])


def collectors_text(model: CollectorsModel) -> str:
    """Return the text view: workers, batches, updates and failures. It contains nothing that differs between runs."""
    lines = [f"BatchedEnvTimeline: {collectors_headline(model)}"]
    if len(model.runs) > 1:
        rows = [[run.label, *_counts(run, "|").split("|")] for run in model.runs[:_MOST_RUNS]]
        lines += [f"  {line}" for line in table(rows).split("\n")]
    for run in model.runs:
        if run.failure:
            done = plural(run.failure.step, "batch", "batches")
            lines.append(f"  {run.label} after {done}: {shorten(run.failure.headline, 140)}")
    lines += [f"  {note}" for note in model.notes]
    return "\n".join([*lines, "  the times and ages, measured on this machine, are in the picture"])


def collectors_explanation(model: CollectorsModel) -> str:
    """Describe the measurements in words."""
    parts = [
        "Each lane is a worker over time; the lane above them is the learner, which waits for a batch, takes it, and "
        "learns. The strip below has the age of each batch while the learner has it: how many times the weights were "
        "updated between the version that made the batch and the version that the learner has when it gets it."
    ]
    parts += [_run_words(run) for run in model.runs]
    insight = collectors_insight(model)
    return "\n\n".join([*parts, *([insight] if len(model.runs) > 1 and insight else []), *model.notes])


def collectors_insight(model: CollectorsModel) -> str:
    """Return in one or two sentences what the picture shows."""
    measured = [run for run in model.runs if math.isfinite(run.rate)]
    if not measured:
        return ""
    if len(measured) == 1:
        run = measured[0]
        work = f"On average {run.at_work:.2g} of {plural(run.workers, 'worker')} collect"
        return f"{work}, and the learner waits {percent(run.learner_shares[-1])} of its time. {_age_words(run)}"
    fast, slow = max(measured, key=lambda run: run.rate), min(measured, key=lambda run: run.rate)
    times = fast.rate / slow.rate
    often = f"{times:.2g} times" if times >= 1.05 else "about"
    words = f"With {fast.label}, there are {often} as many frames per second as with {slow.label}"
    ages = "; ".join(f"{run.label} {run.age.mean():.2g}" for run in measured)
    return f"{words}. Mean age of the weights of a batch, in versions: {ages}."


def _age_words(run: CollectorRun) -> str:
    if not run.updates:
        return "The weights were not updated."
    if not run.age.any():
        return "Each batch was made with the weights that the learner has when it gets it."
    mean, most = f"{run.age.mean():.2g}", int(run.age.max())
    return f"When the learner gets a batch, its weights are on average {mean} versions old, at most {most}."


def _run_words(run: CollectorRun) -> str:
    frames = plural(run.frames, "frame")
    words = f"{run.label}: {run.name} with {plural(run.workers, 'worker')}, {plural(run.batches, 'batch', 'batches')}"
    words += f" of together {frames}."
    if math.isfinite(run.rate):
        words += (
            f" It took {duration(1e6 * run.seconds)}, or {frames_rate_text(run)}. On average {run.at_work:.2g} workers "
            f"collected at the same time. Of its time a worker spends: {_shares(run.shares.tolist(), WORKER_PHASES)}. "
            f"Of its time the learner spends: {_shares(run.learner_shares.tolist(), LEARNER_PHASES)}. {_age_words(run)}"
        )
    if run.failure:
        words += f" After {plural(run.failure.step, 'batch', 'batches')}: {run.failure.headline}"
    return words


def _shares(shares: list[float], phases: dict[str, str]) -> str:
    parts = zip(shares, phases.values(), strict=True)
    return "; ".join(f"{percent(share)} {what}" for share, what in parts if share > 0)
