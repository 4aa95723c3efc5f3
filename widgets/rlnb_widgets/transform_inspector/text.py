"""Text views of the chain: a table of boxes with changes of specs and, with a seed, of values; and a description."""

from __future__ import annotations

from rlnb_widgets._core.text import plural, shorten, table
from rlnb_widgets.transform_inspector.schema import Box, Change, InspectorModel, Moment, Thumbnail, Value

MAX_BOXES = 40
MAX_LINES = 60
WIDE = 48

#: A change as text, its kind or ``"failed"``, and the thumbnail of an image.
_Line = tuple[str, str, Thumbnail | None]


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
    lines += _bounded(["specs", *([f"  {text}" for text, _, _ in spec_lines(model)] or ["  none changes"])])
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
    lines = [f"  {text}" for text, _, _ in value_lines(model, moment)]
    return [f"{moment.label}{seed}", *(lines or ["  no box changes a value"])]


def value_lines(model: InspectorModel, moment: Moment) -> list[_Line]:
    """Return the changes of values in a reset or step, and where it stopped: text, kind and thumbnail of each."""
    places = range(len(model.boxes))
    ways = [(f"{box_label(model, i)} inverse", moment.inverse[i]) for i in reversed(places)]
    ways += [(box_label(model, i), moment.forward[i + 1]) for i in places]
    lines: list[_Line] = [
        (f"{where}: {value_line(v)}", v.kind, v.picture) for where, found in ways for v in moved(found)
    ]
    return [*lines, (f"{stopped_at(model, moment)}: {moment.error}", "failed", None)] if moment.error else lines


def fate(model: InspectorModel, moment: Moment, i: int) -> str:
    """Return how a box, or the base env for -1, took part in a moment: passed, failed or unreached."""
    if moment.failed is None:
        return "passed"
    if i == min(moment.failed, len(model.boxes) - 1):
        return "failed"
    # On the way in, nothing came out again.
    return "unreached" if moment.backwards or i > moment.failed else "passed"


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
    """Return the name of a box with its index; that of the base env for -1."""
    return model.env if i < 0 else f"{place(model, i)}{model.boxes[i].name}"


def box_keys(model: InspectorModel, i: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return what a box, or the base env for -1, does with which keys."""
    if i < 0:
        return [("gives", tuple(c.key for c in model.given)), ("takes", tuple(c.key for c in model.taken))]
    box = model.boxes[i]
    inverse = [("inverse reads", box.inverse_reads), ("inverse writes", box.inverse_writes)]
    return [("reads", box.reads), ("writes", box.writes), *(pair for pair in inverse if pair[1])]


def card_words(model: InspectorModel, i: int) -> str:
    """Return the name of a box, and what it does with all of its keys, in lines."""
    does = (f"{what} {', '.join(keys) or 'nothing'}" for what, keys in box_keys(model, i))
    return "\n".join([box_label(model, i), *does])


def moved(values: tuple[Value, ...] | None) -> list[Value]:
    """Return the values that a box added, changed or removed."""
    return [value for value in values or () if value.kind != "same"]


def value_line(value: Value) -> str:
    """Return a value in one line."""
    what = f"{value.key} {value.kind}"
    return what if value.kind == "removed" else f"{what}: {value.form} {value.text}"


def spec_lines(model: InspectorModel) -> list[_Line]:
    """Return the changes of specs, and the errors: text and kind of each."""
    lines: list[_Line] = []
    for i, box in enumerate(model.boxes):
        lines += [(f"{box_label(model, i)}: {change.text()}", change.kind, None) for change in changed(box.output)]
        lines += [(f"{box_label(model, i)} inverse: {c.text()}", c.kind, None) for c in changed(box.input)]
        lines += [(f"{box_label(model, i)} failed: {box.error}", "failed", None)] if box.error else []
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
