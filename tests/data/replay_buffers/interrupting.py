"""Ctrl+C in a chosen line of code."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any


def interrupted(call: Callable[[], Any], code: Any, at: int) -> bool:
    """Make a call that Ctrl+C reaches in the n-th line of some code; whether there is such a line."""
    lines = itertools.count()

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is not code:
            return None  # its lines are not traced, and the calls in it are
        if event == "line" and next(lines) == at:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False
