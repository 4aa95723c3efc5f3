"""Text views of the timeline: a ``repr`` without durations, and a description with them."""

from __future__ import annotations

import math

import numpy as np

from rlnb_widgets._core.text import duration, percent, plural, short_rate, shorten, table
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel

_MOST_ENVS, _MOST_STEPS, _MOST_RUNS = 16, 10, 12


def rate_text(run: BatchRun) -> str:
    """Format the steps of single envs per second with three digits."""
    return f"{short_rate(run.rate)} steps/s" if math.isfinite(run.rate) else "no step"


def timeline_headline(model: TimelineModel) -> str:
    """Return the headline, without times."""
    runs = model.runs
    if len(runs) == 1:
        return _counts(runs[0], ", ")
    return f"{len(runs)} runs, " + " and ".join(run.label for run in runs[:_MOST_RUNS])


def _counts(run: BatchRun, separator: str) -> str:
    parts = [run.name, plural(run.envs, "env"), plural(run.steps, "step"), plural(run.resets, "reset")]
    return separator.join(parts)


def timeline_text(model: TimelineModel) -> str:
    """Return the text view: envs, steps, resets and failures. It contains no times, which differ from run to run."""
    lines = [f"BatchedEnvTimeline: {timeline_headline(model)}"]
    if len(model.runs) > 1:
        rows = [[run.label, *_counts(run, "|").split("|")] for run in model.runs[:_MOST_RUNS]]
        lines += [f"  {line}" for line in table(rows).split("\n")]
    lines += _reset_lines(model)
    for run in model.runs:
        if run.failure:
            lines.append(
                f"  {run.label} after {plural(run.failure.step, 'step')}: {shorten(run.failure.headline, 140)}"
            )
    lines += [f"  {note}" for note in model.notes]
    return "\n".join([*lines, "  the times, measured on this machine, are in the picture"])


def _reset_lines(model: TimelineModel) -> list[str]:
    lines = []
    for run in model.runs[:1] if model.same_resets else model.runs[:_MOST_RUNS]:
        if not run.mask.any():
            continue
        who = "" if model.same_resets else f" in {run.label}"
        ended = [e for e in range(run.envs) if run.mask[:, e].any()]
        lines.append(f"  reset after step{who}")
        rows = []
        for e in ended[:_MOST_ENVS]:
            steps = np.flatnonzero(run.mask[:, e])
            more = f", and {len(steps) - _MOST_STEPS} more" if len(steps) > _MOST_STEPS else ""
            rows.append([f"env {e}", ", ".join(map(str, steps[:_MOST_STEPS].tolist())) + more])
        lines += [f"    {line}" for line in table(rows).split("\n")]
        if len(ended) > _MOST_ENVS:
            lines.append(f"    and {len(ended) - _MOST_ENVS} more envs")
    return lines


def timeline_explanation(model: TimelineModel) -> str:
    """Describe the measurements in words."""
    parts = [
        "Each lane is an env over time; the lane above them is the process of the learner. In a step each env gets "
        "its action, runs, and writes its row of the batch's data. The batch goes on once every env has done so. Envs "
        "that are done are then reset, and the others wait."
    ]
    for run in model.runs:
        parts.append(_run_words(run))
    insight = timeline_insight(model)
    return "\n\n".join([*parts, *([insight] if len(model.runs) > 1 and insight else []), *model.notes])


def timeline_insight(model: TimelineModel) -> str:
    """Return in one sentence what the picture shows."""
    measured = [run for run in model.runs if math.isfinite(run.rate)]
    if len(measured) > 1:
        fast, *_, slow = sorted(measured, key=lambda run: run.rate, reverse=True)
        ratio = f"{fast.rate / slow.rate:.2g}"
        times = "about" if ratio == "1" else f"{ratio} times"
        words = f"With {fast.label}, there are {times} as many steps per second as with {slow.label}"
        return f"{words}, where an env waits {_waiting(slow)} of its time."
    if not measured:
        return ""
    run = measured[0]
    work = f"On average {run.at_work:.2g} of {plural(run.envs, 'env')} are at work"
    return f"{work}; an env waits {_waiting(run)} of its time."


def _waiting(run: BatchRun) -> str:
    """Return the share of its time that an env waits, in percent."""
    return percent(float(run.shares[list(PHASES).index("wait")]))


def _run_words(run: BatchRun) -> str:
    words = f"{run.label}: {run.name} with {plural(run.envs, 'env')}, {plural(run.steps, 'step')} of each."
    if math.isfinite(run.rate):
        spent = "; ".join(
            f"{percent(share)} {what}" for share, what in zip(run.shares, PHASES.values(), strict=True) if share > 0
        )
        words += (
            f" It took {duration(1e6 * run.seconds)}, or {rate_text(run)} of single envs. On average "
            f"{run.at_work:.2g} envs were at work at the same time. Of its time an env spends: {spent}."
        )
    if run.failure:
        words += f" After {plural(run.failure.step, 'step')}: {run.failure.headline}"
    return words
