"""What a check says: a status, a message and perhaps a picture, as text and as escaped HTML."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["right", "wrong", "error", "todo"]

LABELS: dict[Status, str] = {
    "right": "Right",
    "wrong": "Not right yet",
    "error": "Your code raised an error",
    "todo": "Not done yet",
}
_COLORS: dict[Status, str] = {"right": "#009e73", "wrong": "#d55e00", "error": "#cc79a7", "todo": "#888888"}
_CODE = "background:rgba(128,128,128,.15);padding:0 .2em"


@dataclass(frozen=True)
class Outcome:
    """What a check found, before it is dressed as a :class:`Verdict`.

    Args:
        status: ``"right"``, ``"wrong"``, ``"error"`` or ``"todo"``.
        message: plain text; words in backticks are shown as code, an empty line starts a paragraph.
        picture: any object that a notebook can display (a visualizer, a plotly figure), or ``None``.
    """

    status: Status
    message: str
    picture: Any = None


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answer of a check to one attempt.

    Args:
        title: the exercise's title.
        outcome: what the check found.
        printed: what the learner's code printed while it was checked; the first lines of it.
        hints: hints that the HTML face folds away; none are shown once the answer is right.
        more: one line on how to ask for a hint, for those who read the text face.

    Example:
        >>> Verdict("Count", Outcome("wrong", "`count` gave 2, and 3 episodes end."))
        [Not right yet] Count
        `count` gave 2, and 3 episodes end.
    """

    title: str
    outcome: Outcome
    printed: str = ""
    hints: tuple[str, ...] = ()
    more: str = ""

    @property
    def status(self) -> Status:
        """``"right"``, ``"wrong"``, ``"error"`` or ``"todo"``."""
        return self.outcome.status

    @property
    def ok(self) -> bool:
        """Whether the answer is right."""
        return self.outcome.status == "right"

    def __repr__(self) -> str:
        lines = [f"[{LABELS[self.status]}] {self.title}"]
        lines += [self.outcome.message] if self.outcome.message else []
        if self.printed:
            lines += ["Your code printed:", *(f"    {line}" for line in self.printed.split("\n"))]
        if self.more and not self.ok:
            lines.append(self.more)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heading = f"<strong>{LABELS[self.status]}</strong>: {html.escape(self.title)}"
        parts = [heading, _paragraphs(self.outcome.message)]
        if self.printed:
            parts.append(f"<p>Your code printed:</p><pre>{html.escape(self.printed)}</pre>")
        if not self.ok:
            parts.append(_folded(self.hints))
        style = f"border-left:4px solid {_COLORS[self.status]};padding:.3em .8em;margin:.2em 0"
        return f'<div data-rlnb="verdict" data-status="{self.status}" style="{style}">{"".join(parts)}</div>'

    def _ipython_display_(self) -> None:
        """Show the words, then the picture, each in its own output."""
        from IPython.display import display

        display({"text/plain": repr(self), "text/html": self._repr_html_()}, raw=True)
        if self.outcome.picture is not None:
            display(self.outcome.picture)


def _paragraphs(text: str) -> str:
    """Escaped HTML of a message: paragraphs, line breaks, and code where the text has backticks."""
    shown = re.sub(r"`([^`]+)`", rf'<code style="{_CODE}">\1</code>', html.escape(text))
    return "".join(f"<p>{part.replace(chr(10), '<br>')}</p>" for part in shown.split("\n\n") if part)


def _folded(hints: tuple[str, ...]) -> str:
    """The hints, each folded inside the one before, so that they open in order."""
    folded = ""
    for number, hint in reversed(list(enumerate(hints, start=1))):
        summary = f"<summary>Hint {number} of {len(hints)}</summary>"
        folded = f"<details>{summary}{_paragraphs(hint)}{folded}</details>"
    return folded
