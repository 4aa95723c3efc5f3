"""Text views of the monitor: a ``repr`` without times, and a description in words."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.measures import short_number
from rlnb_widgets._core.text import plural, shorten, sparkline, table
from rlnb_widgets.training_monitor.model import (
    CurveModel,
    MonitorModel,
    Shown,
    insight,
    progress_words,
    trend_of,
)


def monitor_headline(model: MonitorModel) -> str:
    """Return the headline: how far the training is."""
    return progress_words(model.progress)


def monitor_text(model: MonitorModel) -> str:
    """Return the text view: a line for each curve, then rollouts and map. It contains no times."""
    lines = [f"TrainingMonitor: {monitor_headline(model)}"]
    if model.curves:
        lines += [f"  {line}" for line in table([_row(curve) for curve in model.curves]).split("\n")]
    if words := insight(model.curves):
        lines.append(f"  {words}")
    lines += [f"  {shown_words(one, model.progress.unit)}" for one in model.shown]
    if model.value_map is not None:
        grid = model.value_map
        lines.append(
            f"  values of {grid.rows} x {grid.columns} states{', with greedy actions' if any(grid.arrows) else ''}"
        )
    return "\n".join([*lines, *(f"  {note}" for note in model.notes)])


def _row(curve: CurveModel) -> list[str]:
    if not curve.count:
        return [shorten(curve.name, 32), "no values"]
    row = [shorten(curve.name, 32), plural(curve.count, "value"), f"last {short_number(curve.last)}"]
    row.append("" if curve.best is None else f"best {short_number(curve.best)}")
    row.append("" if curve.goal is None else f"goal {short_number(curve.goal)}")
    line = sparkline(curve.smooth if curve.window else curve.values, 24)
    return [*row, line + (f"  {curve.missing_count:,} not finite" if curve.missing_count else "")]


def shown_words(one: Shown, unit: str) -> str:
    """Describe a rollout of the agent in a line."""
    return f"{one.name}: {episode_words(one)}, after {one.frames:,} {unit}"


def episode_words(one: Shown) -> str:
    """Say how long a rollout is, and its return."""
    words = plural(one.player.length, "step")
    found = [episode.ret for episode in one.player.episodes if episode.ret is not None]
    if len(found) > 1:
        return f"{words}, best return {short_number(max(found))}"
    return f"{words}, return {short_number(found[0])}" if found else words


def monitor_explanation(model: MonitorModel) -> str:
    """Describe the training in words."""
    parts = [f"A training, {monitor_headline(model)}."]
    for curve in model.curves:
        parts.append(_curve_words(curve, model.progress.unit))
    if model.shown:
        parts.append(
            "The agent at work: " + "; ".join(shown_words(one, model.progress.unit) for one in model.shown) + "."
        )
    if model.value_map is not None:
        finite = model.value_map.values[np.isfinite(model.value_map.values)]
        if len(finite):
            parts.append(
                f"The value map shows {plural(len(finite), 'state')} with values from "
                f"{short_number(float(finite.min()))} to {short_number(float(finite.max()))}; "
                "an arrow is the greedy action of its state."
            )
    if model.hparams:
        parts.append(
            "Hyperparameters: " + ", ".join(f"{name} = {value}" for name, value in model.hparams.items()) + "."
        )
    return "\n\n".join([*parts, *model.notes])


def _curve_words(curve: CurveModel, unit: str) -> str:
    if not curve.count:
        return f"{curve.name}: nothing was logged."
    words = (
        f"{curve.name}: {trend_of(curve)}. {plural(curve.count, 'value')} between {short_number(curve.low)} and "
        f"{short_number(curve.high)}, the last one {short_number(curve.last)} at {unit} {curve.last_step:,.0f}."
    )
    if curve.window:
        words += f" The moving mean is that of the last {curve.window:,} values."
    if curve.goal is not None:
        words += f" The goal is {short_number(curve.goal)}."
    if curve.missing_count:
        words += f" {plural(curve.missing_count, 'value')} not finite, at the crosses."
    return words
