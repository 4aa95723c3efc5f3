"""The machinery of the exercises: the check replies whatever a learner's code does."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from exercises import Outcome, Verdict, WrongAnswer, ask, exercise, fail, right, running
from exercises.apart import can_run_apart, run_apart
from exercises.asking import Stop
from exercises.curves import Curves
from exercises.running import BoundedText
from hypothesis import given
from hypothesis import strategies as st
from ipywidgets import Label
from tensordict import TensorDict

from tests.notebooks.demo_exercise import demo


@pytest.fixture
def half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of answers that loop until it is up."""
    monkeypatch.setattr(demo, "seconds", 0.5)


def function(body: str) -> str:
    return "def episode_return(rewards):\n" + "\n".join(f"    {line}" for line in body.split("\n"))


def test_the_stub_is_not_done_yet() -> None:
    verdict = demo.try_source(demo.stub)
    assert repr(verdict) == (
        "[Not done yet] The return of an episode\n"
        "Write `episode_return` in place of the stub above, run that cell, and run this one again.\n"
        "Stuck? demo_exercise.demo.hint() gives a hint."
    )
    assert not verdict.ok


@pytest.mark.parametrize(
    "body",
    ["...", "return ...", "return (..., 1)", "return {'sum': [...]}", "raise NotImplementedError", "x = 1; return ..."],
)
def test_whatever_still_has_the_placeholder_is_not_done_yet(body: str) -> None:
    assert demo.try_source(function(body)).status == "todo"


def test_a_value_that_is_the_placeholder_is_not_done_yet() -> None:
    assert demo.check(...).status == "todo"


def test_a_stub_class_is_recognised_by_its_code() -> None:
    @exercise(title="t", prompt="p", stub="class Env:\n    def step(self): ...", solution="", hints=[], wrong=[])
    def env(Env: Any) -> None:
        fail("looked at")

    assert env.try_source(env.stub).status == "todo"
    assert env.try_source("class Env:\n    def step(self): return 1").status == "wrong"


def test_the_solution_is_right_and_says_what_to_take_away() -> None:
    verdict = demo.try_source(demo.solution_source)
    assert verdict.ok
    assert repr(verdict) == "[Right] The return of an episode\nThe return is the sum of the rewards."


@pytest.mark.parametrize("answer", demo.wrong_answers, ids=lambda answer: answer.says)
def test_each_wrong_answer_gets_its_own_verdict(answer: WrongAnswer) -> None:
    verdict = demo.try_source(answer.source)
    assert verdict.status == "wrong"
    assert answer.says in repr(verdict)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "total = 0\nreturn total / 0",
            "ZeroDivisionError: division by zero\n\nIt came from line 3 of your cell: `return total / 0`.",
        ),
        (
            "return rewards.sum()",
            "AttributeError: 'list' object has no attribute 'sum'\n\nIt came from line 2 of your cell",
        ),
        ("return sum(map(int, 'abc'))", "ValueError: invalid literal for int() with base 10: 'a'"),
        ("return episode_return(rewards)", "RecursionError"),
        ("import torch; return 1 if torch.ones(2) else 0", "is ambiguous. `if`, `not`, `and`, `or`, `min` and `max`"),
        ("raise SystemExit", "SystemExit\n\nIt came from line 2"),
        ("raise AssertionError", "AssertionError\n\nIt came from line 2 of your cell: `raise AssertionError`."),
    ],
)
def test_an_error_is_reported_with_the_line_it_came_from(body: str, says: str) -> None:
    verdict = demo.try_source(function(body))
    assert verdict.status == "error"
    assert says in repr(verdict)


@pytest.mark.usefixtures("half_a_second")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("while True: pass", ", at line 2 of your cell: `while True: pass`. Does the loop ever end?"),
        ("while True:\n  try:\n    while True: pass\n  except: pass", ""),
    ],
)
def test_a_loop_without_end_is_reported_with_its_line(body: str, says: str) -> None:
    verdict = demo.try_source(function(body))
    assert verdict.status == "error"
    assert f"It was still running after 0.5 seconds{says}" in repr(verdict)


# --- what a learner's code may do to the one who runs it -------------------------------------------------------------


@pytest.fixture(params=["apart", "here"])
def everywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Checks run in a process of their own, and where there is no fork in this one."""
    monkeypatch.setattr(sys.modules["exercises.exercise"], "can_run_apart", lambda: request.param == "apart")
    return str(request.param)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "class Odd(Exception):\n  def __str__(self): raise ValueError('no')\nraise Odd",
            "Odd: (its text cannot be shown: its __str__ raises an error)\n\nIt came from line 4 of your cell",
        ),
        ("x = []\nx.append(x)\nreturn x", "It gave a `list`"),
        ("x = []\nx.append(x)\nrewards[:] = x\nreturn 6.0", "changed its input"),
        ("import sys\nsys.stdout.close()\nprint('still')\nreturn 1.0", "Your code printed:\n    still"),
        ("import sys\nsys.stdout = None\nreturn 1.0", "only the first reward"),
        ("raise ValueError('x' * 50_000_000)", "(49,998,000 more characters)"),
        ("raise GeneratorExit", "GeneratorExit\n\nIt came from line 2"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd"),
        ("raise KeyError('key \"reward\" not found')", 'KeyError: key "reward" not found\n'),
        ("raise KeyError('reward')", "KeyError: 'reward'\n"),
        ("raise ValueError('a\\x1b[31m\\ud800')", "ValueError: a\\x1b[31m\\ud800"),
    ],
)
def test_odd_answers_are_told_and_bounded(everywhere: str, body: str, says: str) -> None:
    verdict = demo.try_source(function(body))
    text = repr(verdict)
    assert says in text and len(text) < 10_000
    (text + verdict._repr_html_()).encode()


@pytest.mark.usefixtures("half_a_second")
def test_prints_without_end_are_counted_and_not_kept(everywhere: str) -> None:
    out = BoundedText()
    for _ in range(1000):
        out.write("x" * 100_000)
        out.write("\n")
    assert len(out._head) <= 10_000 and out.text().endswith("(and 992 more lines)")
    verdict = demo.try_source(function("while True: print('again' * 1000)"))
    assert "still running after 0.5 seconds" in repr(verdict) and len(repr(verdict)) < 5000


@pytest.mark.parametrize("printed", ["", "a", "a\n", "\n", "a\nb\n", "1\n" * 8, "1\n" * 9, "1\n" * 8 + "9", "x" * 400])
@given(cuts=st.lists(st.integers(0, 400), max_size=3))
def test_what_is_printed_is_shown_however_it_is_written(printed: str, cuts: list[int]) -> None:
    out = BoundedText()
    edges = [0, *sorted(min(cut, len(printed)) for cut in cuts), len(printed)]
    for start, stop in itertools.pairwise(edges):
        out.write(printed[start:stop])
    lines = printed.rstrip("\n").split("\n")
    shown = [line if len(line) <= 300 else f"{line[:300]}… ({len(line) - 300} more characters)" for line in lines[:8]]
    assert out.text() == "\n".join(shown + [f"(and {len(lines) - 8} more lines)"] * (len(lines) > 8))


@pytest.fixture
def apart(missing: Callable[..., NoReturn]) -> None:
    """For tests of checks in a process of their own."""
    if not can_run_apart():
        missing("fork", "checks of exercises run in the kernel's process on this system", optional=True)


@pytest.mark.usefixtures("apart", "half_a_second")
def test_in_a_process_of_its_own_no_except_outlives_the_time() -> None:
    verdict = demo.try_source(
        function("while True:\n  try:\n    while True: rewards\n  except BaseException: pass"),
    )
    says = "still running after 0.5 seconds, at line 4 of your cell: `while True: rewards`. Does the loop ever end?"
    assert verdict.status == "error" and says in repr(verdict)
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("apart")
def test_in_a_process_of_its_own_a_widget_sends_the_page_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**message: Any) -> NoReturn:
        raise AssertionError("the kernel prints the messages of a forked process in the server's log")

    monkeypatch.setattr("comm.create_comm", refused)
    assert run_apart(lambda: type(Label().comm).__name__, 10.0, str).value == "DummyComm"


@pytest.mark.usefixtures("apart", "half_a_second")
def test_in_a_process_of_its_own_no_call_into_c_outlives_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exercises.apart._GRACE_SECONDS", 0.2)  # it cannot report where it stands
    verdict = demo.try_source(function("return sum(range(10**12))"))
    assert verdict.status == "error" and "still running after 0.5 seconds. Does the loop ever end?" in repr(verdict)
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import os\nos._exit(0)", "The process that ran your code ended before the check did."),
        ("import os\nos.kill(os.getpid(), 9)", "ended before the check did (SIGKILL)."),
        (
            "raise KeyboardInterrupt",
            "KeyboardInterrupt\n\nIt came from line 2 of your cell",
        ),
        ("import sys\nsys.exit()", "SystemExit"),
        ("return input('How much? ')", "EOFError"),
    ],
)
def test_in_a_process_of_its_own_an_answer_can_do_what_it_likes(body: str, says: str) -> None:
    verdict = demo.try_source(function(body))
    assert verdict.status == "error" and says in repr(verdict)
    assert not multiprocessing.active_children()


TRACED_AFTER_A_LIMIT = """
import sys, time
from running import TimeLimit, time_limit

def trace(frame, kind, argument):
    frame.f_trace_opcodes = True
    return trace

for seconds, took in ((10, 0), (0.05, 0.2)):
    try:
        with time_limit(seconds):
            time.sleep(took)
        print("in time")
    except TimeLimit:
        print("too long")
    sys.settrace(trace)
    (lambda: None)()
    sys.settrace(None)
"""


def test_a_time_limit_leaves_nothing_behind_for_which_the_interpreter_looks() -> None:
    """CPython 3.11 traces one instruction forever while it looks for an exception of another thread."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED_AFTER_A_LIMIT],
        cwd=Path(running.__file__).parent,  # the module alone: its package imports torch for seconds
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("in time\ntoo long\n", "")


@pytest.mark.usefixtures("apart")
def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exercises.apart.MEMORY_LIMIT", 200 << 20)
    monkeypatch.setattr(demo, "seconds", 60.0)
    verdict = demo.try_source(function("x = []\nwhile True: x.append(b'x' * (10 << 20))"))
    assert verdict.status == "error" and "It used more than 2 GB of memory." in repr(verdict)


@pytest.mark.usefixtures("apart")
def test_a_check_changes_nothing_here() -> None:
    held = [1]

    @exercise(title="t", prompt="p", stub="def f(): ...", solution="", hints=[], wrong=[])
    def changing(f: Any) -> str:
        f(held)
        return str(held)

    assert "[1, 2]" in repr(changing.check(lambda x: x.append(2)))
    assert held == [1]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("make", "here"),
    [
        (lambda: Curves({"y": {"a": [1.0, 2.0]}}, x="step"), 0),
        (lambda: {"not": "a dataclass"}, 1),
        (lambda: Curves({"y": {"a": [1.0, 2.0]}}, x=lambda: "cannot leave"), 1),  # type: ignore[arg-type]
    ],
    ids=["plain data", "an object", "holds a function"],
)
def test_only_a_picture_of_plain_data_comes_from_the_other_process(make: Callable[[], Any], here: int) -> None:
    held: list[int] = []

    @exercise(title="t", prompt="p", stub="def f(): ...", solution="", hints=[], wrong=[])
    def drawing(f: Any) -> Outcome:
        f(held)
        return right("Look:", make())

    picture = drawing.check(lambda x: x.append(2)).outcome.picture
    assert type(picture) is type(make())
    assert len(held) == here, "the check runs here only to make a picture that cannot be sent"


@pytest.mark.usefixtures("apart")
def test_an_interrupt_ends_the_check_and_leaves_no_process(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    note = tmp_path / "pid"
    body = f"import os, pathlib\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\nwhile True: pass"
    main = threading.main_thread().ident

    def interrupt() -> None:
        if until(lambda: note.exists() and note.read_text()):
            signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            demo.try_source(function(body))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not multiprocessing.active_children()
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.usefixtures("apart")
def test_what_an_answer_started_ends_with_the_check(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        f"import subprocess\nchild = subprocess.Popen(['sleep', '600'])\nopen({str(note)!r}, 'w').write(str(child.pid))"
    )
    assert demo.try_source(function(f"{code}\nreturn 6.0")).ok
    assert gone(int(note.read_text()))


@pytest.mark.usefixtures("apart")
def test_a_check_ends_with_the_kernel_that_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    body = f"import os, pathlib\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\nwhile True: pass"
    monkeypatch.setattr(demo, "seconds", 60.0)
    kernel = multiprocessing.get_context("fork").Process(target=demo.try_source, args=(function(body),))
    kernel.start()
    try:
        assert until(lambda: note.exists() and note.read_text())
    finally:
        kernel.kill()
        kernel.join()
    assert gone(int(note.read_text()))


def until(condition: Callable[[], object], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def gone(pid: int) -> bool:
    """Whether a process ends soon; one that nobody has waited for yet has ended."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return until(ended, 10)


def test_here_an_interrupt_is_the_learners_own_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["exercises.exercise"], "can_run_apart", lambda: False)
    with pytest.raises(KeyboardInterrupt):
        demo.try_source(function("raise KeyboardInterrupt"))


def test_warnings_are_passed_on(everywhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = demo.try_source(function("import sys\nprint('careful', file=sys.stderr)\nreturn 6.0"))
    assert capsys.readouterr().err == "careful\n" and "careful" not in repr(verdict)


def test_a_check_that_cannot_use_the_answer_says_so() -> None:
    @exercise(title="t", prompt="p", stub="def f(): ...", solution="def f(): return 3.0", hints=[], wrong=[])
    def careless(f: Any) -> None:
        f().real.is_integer()

    assert repr(careless.try_source("def f(): return 'no'")) == (
        "[Not right yet] t\n"
        "The check could not use the result of `f`. It raised AttributeError: 'str' object has no attribute 'real'"
    )


def test_an_answer_that_is_not_a_function_is_reported() -> None:
    assert "Expected a function, got an object of type `int`." in repr(demo.check(3))


def test_what_the_learner_prints_is_shown_in_the_verdict_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = demo.try_source(function("for i in range(20): print('step', i)\nreturn 1.0"))
    assert capsys.readouterr().out == ""
    text = repr(verdict)
    assert "Your code printed:\n    step 0\n" in text
    assert "    step 7\n    (and 12 more lines)" in text and "step 8" not in text
    assert "step 7" in verdict._repr_html_()


def test_the_wrong_number_of_answers_is_an_error_of_the_notebook() -> None:
    message = "expected 1 answer(s) and got 2; call it as demo_exercise.demo.check(episode_return)"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        demo.check(1, 2)


def test_random_generators_are_fixed_inside_and_untouched_outside(everywhere: str) -> None:
    @exercise(title="t", prompt="p", stub="def f(): ...", solution="", hints=[], wrong=[])
    def draws(f: Any) -> str:
        return str((random.random(), float(np.random.rand()), float(torch.rand(()))))

    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    first = repr(draws.check(len))
    torch.rand(3)
    assert repr(draws.check(len)) == first and "0.8444218515250481" in first
    assert random.getstate() == states[0] and (np.random.get_state()[1] == states[1]).all()
    torch.set_rng_state(states[2])
    torch.rand(3)
    expected = torch.get_rng_state()
    torch.set_rng_state(states[2])
    torch.rand(3)
    draws.check(len)
    assert torch.equal(torch.get_rng_state(), expected)


def change_reward(td: TensorDict) -> None:
    td["next", "reward"] += 1


@pytest.mark.parametrize(
    ("change", "data", "where"),
    [
        (lambda x: x.append(1), [1.0], ""),
        (lambda x: x.__setitem__(1, 5), [0, 1], " at `[1]`"),
        (lambda x: x.update(a=2), {"a": 1}, ' at `["a"]`'),
        (lambda x: x.update(b=2), {"a": 1}, ' at `["b"]`'),
        (lambda x: x.add_(1), torch.zeros(3), ""),
        (lambda x: x.fill(1), np.zeros(3), ""),
        (change_reward, TensorDict({"next": {"reward": torch.zeros(2)}}, [2]), ' at `["next"]["reward"]`'),
        (lambda td: td.pop("done"), TensorDict({"done": torch.zeros(2)}, [2]), ' at `["done"]`'),
    ],
)
def test_a_changed_input_is_told_with_its_place(change: Any, data: Any, where: str) -> None:
    with pytest.raises(Stop) as stop:
        ask(change, data)
    name = change.__name__
    message = f"`{name}` changed its input (argument 1{where}). Work on a copy instead."
    assert stop.value.outcome == Outcome("wrong", message)


@pytest.mark.parametrize(
    "data",
    [[1], {"a": [np.nan]}, torch.tensor([float("nan")]), np.array([np.nan, 1]), TensorDict({"a": torch.ones(2)}, [2])],
)
def test_an_untouched_input_counts_as_unchanged(data: Any) -> None:
    assert ask(lambda x: 1, data) == 1


def test_changes_may_be_what_is_asked_for() -> None:
    data = [1]
    ask(lambda x: x.append(2), data, may_change=True)
    assert data == [1, 2]


def test_hints_come_one_by_one_and_then_point_to_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    @exercise(title="t", prompt="p", stub="...", solution="x = 1", hints=["one", "two"], wrong=[])
    def hinted(x: Any) -> None: ...

    hinted.hint()
    hinted.hint()
    hinted.hint()
    hinted.solution()
    assert capsys.readouterr().out == (
        "Hint 1 of 2: one\nHint 2 of 2: two\n"
        "That was the last hint. test_exercise_machinery.hinted.solution() prints the solution.\nx = 1\n"
    )


def test_html_escapes_everything_that_comes_from_data() -> None:
    bad = "<script>alert(1)</script>"
    verdict = Verdict(bad, Outcome("wrong", f"{bad} `{bad}`"), printed=bad, hints=(bad,), more=bad)
    shown = verdict._repr_html_()
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 5


def test_html_folds_each_hint_inside_the_one_before_and_hides_them_when_right() -> None:
    verdict = Verdict("t", Outcome("wrong", "no"), hints=("first", "second"))
    assert re.search(
        r"<details><summary>Hint 1 of 2.*first.*<details><summary>Hint 2 of 2.*second", verdict._repr_html_()
    )
    assert "details" not in Verdict("t", Outcome("right", ""), hints=("first",))._repr_html_()


def test_words_and_picture_are_shown_in_two_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    verdict = demo.try_source(function("return rewards[0]"))
    verdict._ipython_display_()
    assert shown == [{"text/plain": repr(verdict), "text/html": verdict._repr_html_()}, "a picture"]


def test_right_may_carry_a_picture() -> None:
    assert right("yes", picture=3) == Outcome("right", "yes", 3)


def test_cells_are_task_stub_and_check() -> None:
    assert demo.cells() == [
        (
            "markdown",
            "### Exercise: The return of an episode\n\nWrite `episode_return(rewards)`: the sum of a list of rewards.",
        ),
        ("code", "def episode_return(rewards):\n    ..."),
        ("code", "demo_exercise.demo.check(episode_return)"),
    ]


def test_repr_of_an_exercise() -> None:
    assert repr(demo) == "Exercise('demo_exercise.demo', 'The return of an episode')"
