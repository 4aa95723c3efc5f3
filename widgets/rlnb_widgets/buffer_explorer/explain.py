"""Description of a buffer in words, for beginners and screen readers."""

from __future__ import annotations

from rlnb_widgets._core.text import bytes_text, number, plural
from rlnb_widgets.buffer_explorer.schema import ExplorerModel, Moment
from rlnb_widgets.buffer_explorer.words import buffer_headline, draw_words, moment_words, state_words, trajectory_words


def buffer_explanation(model: ExplorerModel, t: int) -> str:
    """Describe the buffer at recorded state ``t`` in paragraphs."""
    moment = model.moments[t]
    parts = [f"{buffer_headline(model, moment)}.", _ring(moment)]
    words = trajectory_words(moment)
    if words:
        cut = " The arcs over the ring are trajectories: runs of rows that belong together."
        parts.append(f"{words[0].upper()}{words[1:]}.{cut}")
    if moment.slicing:
        parts.append(moment.slicing.verdict)
    parts += _sampling(moment, model.slices)
    parts.append(_parts(model))
    if model.memory.keys:
        largest = model.memory.keys[0]
        parts.append(
            f"The storage has {bytes_text(model.memory.reserved)} in {model.memory.where}. The largest entry is "
            f"{largest.key} with {bytes_text(largest.reserved)}."
        )
    if len(model.moments) > 1:
        parts.append(f"The record has {plural(len(model.moments), 'moment')}. Moment {t}: {moment_words(moment)}.")
    return "\n\n".join([*parts, *([model.memory.note] if model.memory.note else []), *model.notes])


def _ring(moment: Moment) -> str:
    ring = moment.ring
    if not ring.ordered:
        return state_words(ring)
    return (
        "A buffer is a ring of rows. The cursor says where the next row goes; when all are filled it goes over the "
        f"oldest one. The darker a cell, the newer it is. {state_words(ring)}"
    )


def _sampling(moment: Moment, slices: bool) -> list[str]:
    parts = []
    words = draw_words(moment)
    if words:
        parts.append(f"Counted so far: {words}.")
    found = moment.priorities
    if found is not None and found.total > 0:
        parts.append(
            "Elements are drawn in proportion to their priorities, which are stored as (p + eps)^alpha, with alpha "
            f"{number(found.alpha)}. A number drawn between 0 and their sum, {number(found.total)}, goes down the sum "
            "tree: left where it is below the sum on the left, else right, less that sum. The weight of an element is "
            f"(its stored priority / the smallest)^-beta, with beta {number(found.beta)}: what is drawn often counts "
            "less." + (" What is drawn so is where a slice begins." if slices else "")
        )
    return parts


def _parts(model: ExplorerModel) -> str:
    names = {box.role: box.name for box in model.boxes}
    return (
        f"New data goes through the transform ({names['transform']}) backwards and the writer ({names['writer']}) into "
        f"the storage ({names['storage']}). The sampler ({names['sampler']}) chooses what is read, which goes through "
        "the transform forwards."
    )
