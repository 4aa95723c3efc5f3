"""Answers to the page about typed or picked values; typed ones are parsed as literals and never executed."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets._core.spec_entries import Path
from rlnb_widgets._core.text import without_addresses
from rlnb_widgets.spec_explorer.answer import Answer, as_value, ask
from rlnb_widgets.spec_explorer.clicks import clicked
from rlnb_widgets.spec_explorer.picks import pick
from rlnb_widgets.spec_explorer.samples import as_float64, lane_values, positions
from rlnb_widgets.spec_explorer.scene import cells_of
from rlnb_widgets.spec_explorer.schema import SpecModel

MAX_TEXT = 10_000
#: What JSON and people write, beside Python's own words.
WORDS = {"true": True, "false": False, "null": None, "nan": math.nan, "NaN": math.nan, "inf": math.inf}
WORDS["Infinity"] = math.inf
_EXPECTED = "a number, a list such as [0.5, 2.0], a dictionary, or text in quotes"
MAX_DOTS = 24


def reply_to(content: Any, specs: Mapping[Path, Any], model: SpecModel, seed: int) -> dict[str, Any] | None:
    """Answer a message ``{"ask": number, "path": keys, "text": typed}``.

    It may also have ``"pick": name`` in place of the text, or ``"click": [lane, place]`` beside it.

    Returns ``{"answer": number, ...}`` with the results as text, or with ``"error"``; None for a message of another
    kind.
    """
    if not isinstance(content, Mapping) or "ask" not in content:
        return None
    number = content["ask"]
    try:
        path = tuple(str(key) for key in content.get("path", ()))
        if path not in specs:
            raise ValueError("this entry is only in the other spec.")
        spec = specs[path]
        lanes = model.row(*path).cell.domain.lanes
        if "pick" in content:
            given = pick(spec, str(content["pick"]), seed)
            text = repr(given)
        elif "click" in content:
            lane, place = content["click"]
            given = clicked(_typed(content["text"]), tuple(spec.shape), lanes, int(lane), float(place))
            text = repr(given)
        else:
            text = str(content.get("text", ""))
            given = read_literal(text)
        answer = ask(spec, path, given)
        dots = dots_of(spec, lanes, given)
        return {"answer": number, "text": text, **as_json(answer), "dots": dots}
    except Exception as error:
        return {"answer": number, "error": without_addresses(str(error)) or type(error).__name__}


def _typed(text: Any) -> Any:
    """Return what is typed while one clicks; None where it cannot be read."""
    try:
        return read_literal(str(text))
    except ValueError:
        return None


def as_json(answer: Answer) -> dict[str, Any]:
    """Return an answer for the page: lines of a name and parts, each of them a kind, a text, and what its tip says."""
    said = ["yes", "✓ True"] if answer.is_in else ["no", "✗ False"]
    lines: list[list[Any]] = [["value", ["code", answer.value]]]
    lines.append(["is_in", said, *(["reason", reason] for reason in answer.reasons)])
    for name in ("project", "encode", "to_numpy"):
        reply = getattr(answer, name)
        # An error that only repeats the reason is not read twice.
        again = not reply.ok and reply.text.endswith(tuple(answer.reasons))
        shown = f"{reply.text.partition(':')[0]}, for the same reason" if again else reply.text
        lines.append([name, ["code" if reply.ok else "raised", shown, reply.text]])
    return {"in": answer.is_in, "lines": lines}


def dots_of(spec: Any, lanes: tuple[Lane, ...], given: Any) -> dict[str, list[float]]:
    """Return where the numbers of a value are in the large picture: ``legal0`` of the first lane, ``illegal0``, ...

    On a line positions are from 0 to 1, or slightly outside of the picture; otherwise they are in the middle of the
    choice or the cell. Empty if the shape does not match.
    """
    dots: dict[str, list[float]] = {}
    try:
        value = as_value(spec, given)
        shape = tuple(spec.shape)
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != shape:
            return {}
        numbers = as_float64(value)[None]
        for i, lane in enumerate(lanes):
            for place, legal in _dots(lane, lane_values(lane, numbers)):
                dots.setdefault(f"{'legal' if legal else 'illegal'}{i}", []).append(place)
        return dots
    except Exception:
        # the answer contains the error, so here only the dots are left out
        return {}


def _dots(lane: Lane, values: np.ndarray) -> list[list[Any]]:
    if lane.kind in ("cells", "bits"):
        on = [i for i in range(lane.n) if values[:, i].any()]
        legal = lane.kind == "bits" or len(on) == 1
        good = [legal and i not in lane.barred and set(values[:, i]) <= {0.0, 1.0} for i in on[:MAX_DOTS]]
        return [[i * cells_of(lane) // lane.n + 0.5, bool(fits)] for i, fits in zip(on, good, strict=False)]
    flat = values[:MAX_DOTS, 0]
    if lane.kind == "choices":
        return [[_rounded(x - lane.start, -1, lane.n) + 0.5, _is_choice(lane, float(x))] for x in flat]
    at = positions(lane, flat)
    return [[_rounded(p, -0.03, 1.03), _on_line(lane, float(x))] for p, x in zip(at, flat, strict=True)]


def _rounded(x: float, low: float, high: float) -> float:
    return round(float(min(max(np.nan_to_num(x, nan=low), low), high)), 4)


def _is_choice(lane: Lane, x: float) -> bool:
    place = x - lane.start
    return place == round(place) and 0 <= place < lane.n and int(place) not in lane.barred if np.isfinite(x) else False


def _on_line(lane: Lane, x: float) -> bool:
    if np.isnan(x):
        return lane.low is None and lane.high is None
    return (lane.low is None or x >= lane.low) and (lane.high is None or x <= lane.high)


def read_literal(text: str) -> Any:
    """Parse a Python or JSON literal; ``nan``, ``inf``, ``true``, ``false`` and ``null`` are accepted.

    Raises:
        ValueError: If it is something else; the message says what is expected.

    Example:
        >>> read_literal("[1, 2.5, -inf, true]")
        [1, 2.5, -inf, True]
    """
    if not text.strip():
        raise ValueError(f"nothing was typed; type {_EXPECTED}.")
    if len(text) > MAX_TEXT:
        raise ValueError(f"{len(text):,} characters are more than {MAX_TEXT:,}; call try_value in code instead.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return ast.literal_eval(_Words().visit(tree))
    except SyntaxError as error:
        raise ValueError(f"this cannot be read ({error.msg}); type {_EXPECTED}.") from None
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"only literals are read, nothing is run; type {_EXPECTED}.") from None


class _Words(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(WORDS[node.id]), node) if node.id in WORDS else node
