"""One exercise: its stub, hints, check and solution, and the wrong answers its check must recognise."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import linecache
import pickle
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlnb._text import printable

from .apart import MEMORY_LIMIT, can_run_apart, run_apart
from .asking import Stop, has_ellipsis, name_of
from .running import (
    BoundedText,
    TimeLimit,
    fixed_randomness,
    learners_line,
    learners_place,
    shortened,
    time_limit,
    unchanged,
)  # fmt: skip
from .verdict import Outcome, Verdict

Check = Callable[..., Outcome | str | None]
_MESSAGE = 4000  # characters of a message that are shown


@dataclass(frozen=True)
class WrongAnswer:
    """A typical wrong answer, and what the check must say to it.

    Args:
        source: code that defines what the stub defines, wrongly.
        says: a piece of the message that the verdict's text must hold.
    """

    source: str
    says: str


@dataclass(eq=False)
class Exercise:
    """A task in a notebook that answers for itself; made with :func:`exercise`.

    Args:
        name: the name of the check function, an identifier.
        lesson: the module that holds it, such as ``"e01_rollouts"``.
        title: a few words.
        prompt: what to do, in Markdown.
        stub: source of the cell that the learner edits.
        hints: from a nudge to nearly everything.
        solution_source: code in place of the stub that passes the check.
        wrong_answers: typical wrong answers.
        accepted: sources of unusual answers that are right all the same.
        check_function: called with the learner's answers; its parameters are the names that the stub defines.
        setup: code that the notebook ran before, such as its imports.
        seconds: how long an answer may take.
    """

    name: str
    lesson: str
    title: str
    prompt: str
    stub: str
    hints: tuple[str, ...]
    solution_source: str
    wrong_answers: tuple[WrongAnswer, ...]
    check_function: Check
    accepted: tuple[str, ...] = ()
    setup: str = ""
    seconds: float = 20.0
    _hints_shown: int = field(default=0, init=False, repr=False)

    def __repr__(self) -> str:
        return f"Exercise({self.address!r}, {self.title!r})"

    @property
    def address(self) -> str:
        """What a notebook calls it, for example ``"e01_rollouts.count_episodes"``."""
        return f"{self.lesson}.{self.name}"

    @property
    def answers(self) -> tuple[str, ...]:
        """The names that the stub defines and the check receives."""
        return tuple(inspect.signature(self.check_function).parameters)

    def check(self, *answers: Any) -> Verdict:
        """Say whether an answer is right, and if it is not, what is wrong with it.

        Whatever the learner's code does (raise, print, loop without end, exhaust the memory, crash) ends up in the
        verdict. On Linux the check runs in a process of its own, which is killed at the limits of time and memory, so
        that it changes nothing in the notebook. A picture of plain data comes from there, too; when it has another
        picture to show, such as a widget, it runs once more in the notebook's process, to make it. On other systems it
        runs in the notebook's process: there a loop that catches every exception, or a long call into C, can outlive
        the limit, and memory is not limited. The global random generators are seeded for the check and have their old
        state afterwards.

        Args:
            *answers: what the stub defines, in its order.

        Returns:
            The verdict, which a notebook shows.

        Raises:
            TypeError: when the number of answers is not that of the exercise.
        """
        if len(answers) != len(self.answers):
            call = f"{self.address}.check({', '.join(self.answers)})"
            raise TypeError(f"expected {len(self.answers)} answer(s) and got {len(answers)}; call it as {call}")
        outcome, printed = self._apart(answers) if can_run_apart() else self._here(answers)
        more = f"Stuck? {self.address}.hint() gives a hint." if self.hints else ""
        return Verdict(self.title, outcome, printed, self.hints, more)

    def hint(self) -> None:
        """Print the next hint; after the last one, say where the solution is."""
        if self._hints_shown >= len(self.hints):
            print(f"That was the last hint. {self.address}.solution() prints the solution.")
            return
        self._hints_shown += 1
        print(f"Hint {self._hints_shown} of {len(self.hints)}: {self.hints[self._hints_shown - 1]}")

    def solution(self) -> None:
        """Print the solution's source."""
        print(self.solution_source)

    def try_source(self, source: str) -> Verdict:
        """Check an answer given as source code, in a fresh namespace, the way its cell would run.

        Args:
            source: what a learner might have left in the stub's cell.

        Returns:
            The verdict.
        """
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for code, filename in ((self.setup, "<setup>"), (source, "<your cell>")):
            linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
            exec(compile(code, filename, "exec", dont_inherit=True), namespace)
        return self.check(*(namespace[name] for name in self.answers))

    def cells(self) -> list[tuple[str, str]]:
        """The notebook's cells for this exercise: ``("markdown" or "code", source)`` for task, stub and check."""
        return [
            ("markdown", f"### Exercise: {self.title}\n\n{self.prompt}"),
            ("code", self.stub),
            ("code", f"{self.address}.check({', '.join(self.answers)})"),
        ]

    def _apart(self, answers: tuple[Any, ...]) -> tuple[Outcome, str]:
        """Judge in another process: the outcome and what was printed."""

        def judge() -> tuple[Any, ...]:
            warned = BoundedText()
            with contextlib.redirect_stderr(warned):  # a kernel's stream would use the kernel's sockets
                outcome, printed = self._here(answers, forked=True)
            picture = _packed(outcome.picture)
            return outcome.status, outcome.message, outcome.picture is not None, picture, printed, warned.text()

        try:
            ended = run_apart(judge, self.seconds, learners_place)
        except OSError:  # the machine has no room for another process
            return self._here(answers)
        if ended.how == "late":
            return self._late(ended.stack), ""
        if ended.how == "memory":
            size = f"{MEMORY_LIMIT >> 30} GB"
            return Outcome("error", f"It used more than {size} of memory. Does something grow without limit?"), ""
        if ended.value is None:
            how = f" ({ended.signal})" if ended.signal else ""
            return Outcome("error", f"The process that ran your code ended before the check did{how}."), ""
        status, message, has_picture, picture, printed, warned = ended.value
        if has_picture and picture is None:
            return self._here(answers)
        if warned:
            print(warned, file=sys.stderr)
        return Outcome(status, message, picture and pickle.loads(picture)), printed

    def _here(self, answers: tuple[Any, ...], forked: bool = False) -> tuple[Outcome, str]:
        """Judge in this process: the outcome, with its message bounded, and what was printed."""
        printed = BoundedText()
        with contextlib.redirect_stdout(printed), fixed_randomness():
            found = self._judge(answers, forked)
        message = printable(shortened(str(found.message), _MESSAGE))
        return Outcome(found.status, message, found.picture), printable(printed.text())

    def _judge(self, answers: tuple[Any, ...], forked: bool) -> Outcome:
        try:
            if any(has_ellipsis(answer) or unchanged(answer, self.stub) for answer in answers):
                return self._todo()
            with contextlib.nullcontext() if forked else time_limit(self.seconds):
                found = self.check_function(*answers)
        except Stop as stop:
            return stop.outcome
        except TimeLimit as error:
            return self._late(learners_line(error))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not forked:
                raise
            if isinstance(error, NotImplementedError) and learners_line(error, deepest=True):
                return self._todo()
            return _error(error, answers)
        return found if isinstance(found, Outcome) else Outcome("right", found or "")

    def _late(self, place: str | None) -> Outcome:
        where = f", at {place}" if place else ""
        return Outcome("error", f"It was still running after {self.seconds:g} seconds{where}. Does the loop ever end?")

    def _todo(self) -> Outcome:
        names = " and ".join(f"`{name}`" for name in self.answers)
        return Outcome("todo", f"Write {names} in place of the stub above, run that cell, and run this one again.")


def exercise(
    *,
    title: str,
    prompt: str,
    stub: str,
    solution: str,
    hints: Sequence[str],
    wrong: Sequence[WrongAnswer],
    accepted: Sequence[str] = (),
    setup: str = "",
    seconds: float = 20.0,
) -> Callable[[Check], Exercise]:
    """Make an exercise of a check function, which gives it its name and the names of its answers.

    The function's parameters are the names that the stub defines. It uses :func:`ask`, :func:`require` and
    :func:`fail`, and returns ``None``, a message or :func:`right` when the answer is right. Sources may be indented
    and start on their second line.

    Args:
        title: a few words.
        prompt: what to do, in Markdown.
        stub: source of the cell that the learner edits.
        solution: code in place of the stub that passes.
        hints: from a nudge to nearly everything.
        wrong: typical wrong answers and what the check says to each.
        accepted: sources of unusual answers that are right all the same; the tests run them.
        setup: code that the notebook ran before, such as its imports.
        seconds: how long an answer may take.

    Returns:
        A decorator that turns the check function into an :class:`Exercise`.
    """

    def make(check: Check) -> Exercise:
        return Exercise(
            name=check.__name__,
            lesson=check.__module__.rpartition(".")[2],
            title=title,
            prompt=_clean(prompt),
            stub=_clean(stub),
            hints=tuple(map(_clean, hints)),
            solution_source=_clean(solution),
            wrong_answers=tuple(WrongAnswer(_clean(answer.source), answer.says) for answer in wrong),
            accepted=tuple(map(_clean, accepted)),
            check_function=check,
            setup=_clean(setup),
            seconds=seconds,
        )

    return make


def _packed(picture: Any) -> bytes | None:
    """Pack a picture of plain data for another process; None for a widget, which must be made where it is shown."""
    if not dataclasses.is_dataclass(picture):
        return None
    try:
        return pickle.dumps(picture)
    except Exception:  # it holds something that cannot leave its process
        return None


def _clean(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def _words(error: BaseException) -> str:
    """The text of an exception; the sentence of a KeyError without the quotes and backslashes that `str` puts there."""
    sentence = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else None
    return sentence if type(sentence) is str and " " in sentence else str(error)


def _error(error: BaseException, answers: tuple[Any, ...]) -> Outcome:
    """The outcome for an exception: the learner's line where one had a part, or what the check could not digest."""
    name = type(error).__name__
    try:
        text = shortened(_words(error), _MESSAGE // 2)
    except Exception:
        text = "(its text cannot be shown: its __str__ raises an error)"
    said = f"{name}: {text}" if text else name
    if "Boolean value of Tensor with more than one value" in text:
        said += (
            ". `if`, `not`, `and`, `or`, `min` and `max` need a single value, and this tensor holds several: use "
            "`torch.where`, `~`, `&`, `|`, `torch.minimum` and `torch.maximum`."
        )
    place = learners_line(error)
    if place:
        return Outcome("error", f"{said}\n\nIt came from {place}.")
    kinds = ", ".join(f"`{name_of(answer)}`" for answer in answers)
    return Outcome("wrong", f"The check could not use the result of {kinds}. It raised {said}")
