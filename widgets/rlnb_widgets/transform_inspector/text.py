"""Text views of the chain: a table of boxes with changes of specs and, with a seed, of values; and a description."""

from __future__ import annotations

from rlnb_widgets._core.text import plural, shorten, table
from rlnb_widgets.transform_inspector.schema import Box, Change, InspectorModel, Moment, Value

MAX_BOXES = 40
MAX_LINES = 60
WIDE = 48


def inspector_text(model: InspectorModel) -> str:
    """Return the text view; values are included only with a seed."""
    headers = ["box", "reads", "writes", "inverse reads", "inverse writes"]
    gives, takes = (joined(tuple(change.key for change in changes)) for changes in (model.given, model.taken))
    rows = [[model.env, takes, gives, "-", "-"]]
    for i, box in enumerate(model.boxes[:MAX_BOXES]):
        sets = (box.reads, box.writes, box.inverse_reads, box.inverse_writes)
        rows.append([place(model, i) + box.name, *map(joined, sets)])
    lines = [inspector_headline(model), table(rows, headers)]
    if len(model.boxes) > MAX_BOXES:
        lines.append(f"+{plural(len(model.boxes) - MAX_BOXES, 'more box', 'more boxes')}")
    lines += _bounded(["specs", *(_spec_lines(model) or ["  none changes"])])
    if model.seed is not None:
        for moment in model.moments:
            lines += _bounded(moment_lines(model, moment))
    if model.note:
        lines.append(model.note)
    return "\n".join(lines)


def inspector_headline(model: InspectorModel) -> str:
    """Return the headline."""
    parts = [model.env, plural(len(model.boxes), "transform")]
    backwards = sum(box.invertible for box in model.boxes)
    parts += [f"{backwards} with an inverse"] if backwards else []
    return f"TransformInspector({', '.join(parts)})"


def place(model: InspectorModel, i: int) -> str:
    """Return the index of a box as text, to go before its name."""
    index = model.boxes[i].code.removeprefix("env.transform")
    return f"{index} " if index else ""


def joined(keys: tuple[str, ...]) -> str:
    """Return keys separated by commas, or a dash."""
    return shorten(", ".join(keys) or "-", WIDE)


def changed(changes: tuple[Change, ...]) -> list[Change]:
    """Return the changes that are not of kind ``"same"``."""
    return [change for change in changes if change.kind != "same"]


def moment_lines(model: InspectorModel, moment: Moment) -> list[str]:
    """Return the changes of values in a reset or step, one per line."""
    seed = "" if model.seed is None else f", seed {model.seed}"
    lines = [f"{moment.label}{seed}"]
    for i in reversed(range(len(model.boxes))):
        for value in moved(moment.inverse[i]):
            lines.append(f"  {box_label(model, i)} inverse: {value_line(value)}")
    for i in range(len(model.boxes)):
        for value in moved(moment.forward[i + 1]):
            lines.append(f"  {box_label(model, i)}: {value_line(value)}")
    if moment.error:
        lines.append(f"  {stopped_at(model, moment)}: {moment.error}")
    return lines if len(lines) > 1 else [*lines, "  no box changes a value"]


def stopped_at(model: InspectorModel, moment: Moment) -> str:
    """Describe where a reset or step stopped."""
    failed = moment.failed
    if failed is None:
        return ""
    if failed < 0:
        return f"stopped in {model.env}"
    if failed >= len(model.boxes):
        return "stopped in the env around the chain"
    return f"stopped in {box_label(model, failed)}{' inverse' if moment.backwards else ''}"


def box_label(model: InspectorModel, i: int) -> str:
    """Return the name of a box with its index."""
    return f"{place(model, i)}{model.boxes[i].name}"


def moved(values: tuple[Value, ...] | None) -> list[Value]:
    """Return the values that a box added, changed or removed."""
    return [value for value in values or () if value.kind != "same"]


def value_line(value: Value) -> str:
    """Return a value in one line."""
    what = f"{value.key} {value.kind}"
    return what if value.kind == "removed" else f"{what}: {value.form} {value.text}"


def _spec_lines(model: InspectorModel) -> list[str]:
    lines = []
    for i, box in enumerate(model.boxes):
        lines += [f"  {box_label(model, i)}: {change.text()}" for change in changed(box.output)]
        lines += [f"  {box_label(model, i)} inverse: {change.text()}" for change in changed(box.input)]
        lines += [f"  {box_label(model, i)} failed: {box.error}"] if box.error else []
    return lines


def _bounded(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"  +{plural(len(lines) - MAX_LINES, 'more line')}"]


def box_words(model: InspectorModel, box: Box) -> str:
    """Describe a box in a sentence."""
    does = []
    if box.reads:
        does.append(f"reads {', '.join(box.reads)}")
    if box.writes:
        does.append(f"writes {', '.join(box.writes)}")
    if box.inverse_writes:
        does.append(f"on the way in reads {', '.join(box.inverse_reads)} and writes {', '.join(box.inverse_writes)}")
    specs = [change.text() for change in (*changed(box.output), *changed(box.input))]
    text = f"{box.code} is {box.name}: it {', '.join(does) or 'names no keys'}."
    return text + (f" Specs: {'; '.join(specs)}." if specs else " It changes no spec.")


def inspector_words(model: InspectorModel) -> str:
    """Describe the chain in words; values are included only with a seed."""
    words = [
        f"The data of {model.env} goes through {plural(len(model.boxes), 'transform')}: outwards from the first to the "
        "last after each reset and step, inwards from the last to the first before each step."
    ]
    words += [box_words(model, box) for box in model.boxes[:MAX_BOXES]]
    if model.boxes:
        code = model.boxes[-1].code
        words.append(f"{code}.parent is the env cut off before that box: the base env with all boxes before it.")
    if model.seed is not None and model.moments:
        lines = [line.strip() for line in moment_lines(model, model.moments[-1])[:20]]
        words.append(f"Last, {lines[0]}: {'; '.join(lines[1:])}.")
    if model.note:
        words.append(model.note)
    return " ".join(words)
