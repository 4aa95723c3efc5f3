"""nbval for the course: plotly figures compared with a tolerance, kernels alike everywhere."""

from __future__ import annotations

import base64
import math
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from execute import kernel_environment
from nbformat import from_dict
from nbval.plugin import IPyNbCell, IPyNbFile

RELATIVE, ABSOLUTE = 1e-6, 1e-9
IGNORED = ("template", "uid")


class PlotlyFigure:
    """JSON of a figure that equals another of close numbers; nbval compares outputs with ``!=``."""

    def __init__(self, figure: dict[str, Any]) -> None:
        self.figure = figure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlotlyFigure) and close(self.figure, other.figure)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PlotlyFigure({_decoded(self.figure)!r})"


def close(one: Any, two: Any) -> bool:
    """Whether two pieces of plotly JSON are equal up to rounding."""
    one, two = _decoded(one), _decoded(two)
    if isinstance(one, dict) and isinstance(two, dict):
        keys = {*one, *two} - set(IGNORED)
        return all(key in one and key in two and close(one[key], two[key]) for key in keys)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(close, one, two))
    if _is_number(one) and _is_number(two):
        return math.isclose(one, two, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (
            one != one and two != two
        )
    return type(one) is type(two) and bool(one == two)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decoded(value: Any) -> Any:
    """Unpack plotly's base64 arrays, and make tuples lists."""
    if isinstance(value, dict) and {"bdata", "dtype"} <= set(value):
        flat = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        return flat.reshape(
            [int(n) for n in str(value.get("shape", flat.size)).split(",")]
        ).tolist()
    return list(value) if isinstance(value, tuple) else value


def pytest_configure(config: pytest.Config) -> None:
    """Teach nbval to compare figures; its own sanitising sees strings only."""
    if getattr(IPyNbCell, "rlnb_compares_figures", False):
        return
    sanitize, setup, teardown = IPyNbCell.sanitize, IPyNbFile.setup, IPyNbFile.teardown
    next_message = IPyNbFile.get_kernel_message

    def sanitize_figures(self: Any, value: Any) -> Any:
        is_figure = isinstance(value, dict) and {"data", "layout"} <= set(value)
        return PlotlyFigure(dict(value)) if is_figure else sanitize(self, value)

    def setup_in_environment(self: Any) -> None:
        self.rlnb_environment = ExitStack()
        self.rlnb_environment.enter_context(kernel_environment())
        setup(self)

    def teardown_in_environment(self: Any) -> None:
        teardown(self)
        if hasattr(self, "rlnb_environment"):
            self.rlnb_environment.close()

    def message_with_updates(self: Any, **options: Any) -> Any:
        """Apply updates of an output, which nbval ignores, to the output, as saved notebooks do."""
        shown = self.__dict__.setdefault("rlnb_shown", {})
        while True:
            message = next_message(self, **options)
            content = message["content"]
            name = (content.get("transient") or {}).get("display_id")
            if message["msg_type"] == "update_display_data":
                for data in shown.get(name, []):
                    data.clear()
                    data.update(content["data"])
                continue
            if name is not None and "data" in content:
                # nbval keeps a node as it is, and would copy a dict.
                content["data"] = from_dict(content["data"])
                shown.setdefault(name, []).append(content["data"])
            return message

    IPyNbCell.rlnb_compares_figures = True
    IPyNbFile.get_kernel_message = message_with_updates
    IPyNbCell.sanitize = sanitize_figures
    IPyNbFile.setup = setup_in_environment
    IPyNbFile.teardown = teardown_in_environment
