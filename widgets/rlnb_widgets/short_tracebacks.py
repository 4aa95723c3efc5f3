"""Short tracebacks of errors in notebook cells: message, suggestion and the learner's own lines."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from tensordict import is_tensor_collection

from rlnb._text import printable
from rlnb.data.ted.explain import explain_missing_key, explain_unpacking
from rlnb.envs.base import EnvBase

_MOST = 2000  # characters of a message
_ABOVE, _BELOW = 2, 1  # lines shown around the one that raised
_NOT_FOUND = re.compile(r'^key "(?P<name>[^"]*)" not found in ')
_UNPACKED = re.compile(r"^[^=]*,[^=]*=\s*(?P<env>[A-Za-z_][\w.]*)\.(reset|step)\(")
_RED, _BOLD, _OFF = "\x1b[31m", "\x1b[1m", "\x1b[0m"


def explain_errors(on: bool = True) -> None:
    """Show short tracebacks in notebook cells: the message, a suggestion, and the lines of your cells.

    Library frames are summarised in one line; ``%tb`` shows them. Outside of IPython this does nothing. The course
    calls it when a notebook imports ``exercises``.

    Args:
        on: False restores IPython's tracebacks.

    Example:
        >>> explain_errors()
    """
    shell = _shell()
    if shell is not None:
        shell.set_custom_exc((Exception,) if on else (), _show if on else None)


def _shell() -> Any:
    ipython: Any = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, tb: TracebackType | None, tb_offset: int | None = None
) -> list[str]:
    """Handle an error as IPython does: store it for ``%tb``, and display the traceback."""
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, tb
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    lines = short_traceback(error, tb, name)
    shell._showtraceback(kind, error, lines)
    return lines


def short_traceback(
    error: BaseException, tb: TracebackType | None, name_of: Callable[[str], Any] | None = None
) -> list[str]:
    """Format an error for a learner.

    The text does not depend on where the libraries are installed.

    Args:
        error: the error.
        tb: its traceback; frames whose module is ``__main__`` are the learner's.
        name_of: IPython's ``format_code_name``, which maps the file name of a cell to ``("Cell", "In[3]")``.

    Returns:
        Blocks of text for a terminal: the message, the suggestion if there is one, and the learner's frames.
    """
    frames = list(traceback.walk_tb(tb))
    own = [i for i, (frame, _) in enumerate(frames) if frame.f_globals.get("__name__") == "__main__"]
    blocks = [f"{_RED}{type(error).__name__}{_OFF}: {_message(error)}"]
    try:
        proposal = _proposal(error, frames, own)
    except Exception:  # a failure here must not hide the error
        proposal = ""
    if proposal:
        blocks.append(f"{_BOLD}{printable(proposal)}{_OFF}")
    blocks += [_block(*frames[i], name_of) for i in own[-3:]]
    folded = len(frames) - 1 - own[-1] if own else 0
    if folded:
        word = "call" if folded == 1 else "calls"
        blocks.append(f"({folded} {word} inside of libraries below that line: %tb shows them)")
    return [f"{block}\n" for block in blocks]


def _message(error: BaseException) -> str:
    try:
        # KeyError writes its message as a literal.
        alone = isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str)
        text = error.args[0] if alone else str(error)
    except Exception:
        return "(its text cannot be shown: its __str__ raises an error)"
    text = printable(text)
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text) - _MOST:,} more characters)"


def _proposal(error: BaseException, frames: list[tuple[FrameType, int]], own: list[int]) -> str:
    """Suggest what the learner probably meant, for common mistakes of Gymnasium users."""
    if not own:
        return ""
    frame, line = frames[own[-1]]
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        found = _NOT_FOUND.match(error.args[0])
        # The innermost TensorDict may be a nested one, so take the first one below the learner's line.
        holders = [inner.f_locals.get("self") for inner, _ in frames[own[-1] + 1 :]]
        tds: list[Any] = [holder for holder in holders if is_tensor_collection(holder)]
        if found and tds:
            return explain_missing_key(tds[0], _asked(frames[own[-1] + 1 :], found["name"]))
    if isinstance(error, (TypeError, ValueError)):
        found = _UNPACKED.match(linecache.getline(frame.f_code.co_filename, line).strip())
        env = _value(frame, found["env"]) if found else None
        if found and isinstance(env, EnvBase):
            spec = env.full_observation_spec.zero()
            return explain_unpacking(spec if found[2] == "reset" else env.fake_tensordict())
    return ""


def _asked(frames: list[tuple[FrameType, int]], name: str) -> Any:
    """Return the requested key: the argument of the first call that contains the name."""
    for frame, _ in frames:
        for value in frame.f_locals.values():
            if value == name if isinstance(value, str) else isinstance(value, tuple) and value[-1:] == (name,):
                return value
    return name


def _value(frame: FrameType, dotted: str) -> Any:
    """Return the value of a dotted name in a frame; None if it is undefined."""
    first, *rest = dotted.split(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for part in rest:
        value = getattr(value, part, None)
    return value


def _block(frame: FrameType, line: int, name_of: Callable[[str], Any] | None) -> str:
    """Return the location of a frame and the lines around it."""
    filename = frame.f_code.co_filename
    name = name_of(filename) if name_of else None
    place = " ".join(map(str, name)) if isinstance(name, tuple) else "your code"
    function = frame.f_code.co_name
    inside = "" if function == "<module>" else f", in {function}"
    shown = [f"{_BOLD}{place}, line {line}{inside}{_OFF}"]
    source = linecache.getlines(filename)
    for number in range(max(line - _ABOVE, 1), min(line + _BELOW, len(source)) + 1):
        arrow = "---->" if number == line else "     "
        shown.append(f"{arrow} {number} {printable(source[number - 1].rstrip())}")
    return "\n".join(shown)
