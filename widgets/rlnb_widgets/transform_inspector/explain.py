"""Description of a chain in words, for beginners and screen readers."""

from __future__ import annotations

from rlnb_widgets._core.text import plural
from rlnb_widgets.transform_inspector.schema import InspectorModel
from rlnb_widgets.transform_inspector.text import box_words, moment_lines

MAX_BOXES = 40


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
