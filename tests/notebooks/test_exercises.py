"""Every exercise of the course: its stub, its solution, its wrong answers, and its cells in the notebook."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import exercises
import nbformat
import pytest
from exercises import Exercise, Verdict, WrongAnswer, all_exercises

from tests.long_lessons import SHORTER

TUTORIALS = Path(__file__).parents[2] / "tutorials"
EXERCISES = all_exercises()
# A check that trains an agent takes seconds: `make test` runs it with the solution alone.
TRAIN = {one.address for one in EXERCISES if one.lesson[1:3] in {name[:2] for name in SHORTER}}
# What a check trains for a figure, when it knows that the answer is right, is trained for a shorter time here, but for
# one deep test. Where what was learned decides, it is trained as long as in a lesson.
FIGURES: dict[str, dict[str, int]] = {
    "bandits.play": {"steps": 50},
    "e02_the_whole_game.learn_with": {"batches": 2},
    "e06_sarsa.learn": {"episodes": 10},
    "e07_dqn.train": {"frames": 1536},
    "e08_actor_critic._spread": {"batches": 25},
    "e08_actor_critic._train_reinforce": {"updates": 3},
    "e08_actor_critic.bias_and_variance": {"copies": 20},
    "e08_actor_critic.train_actor_critic": {"updates": 3},
    "e09_ppo.train": {"batches": 2, "epochs": 2},
    "e10_sac.climb": {"steps": 20},
    "e10_sac.learn": {"updates": 50},
    "e10_sac.settle": {"steps": 20},
    "e33_collecting.train": {"batches": 7},  # some steps are too old
    "e35_offline.implicit": {"updates": 100},
    "e35_offline.q_learning": {"updates": 100},
}
TRAINED = {name.partition(".")[0] for name in FIGURES} | {"e03_bandits"}
FEW = 2  # wrong answers to an exercise that `make test` tries


def deep_if(condition: object) -> Any:
    return pytest.mark.deep if condition else ()


ACCEPTED = [
    pytest.param(one, source, id=f"{one.address}-{i}", marks=deep_if(i or one.address in TRAIN))
    for one in EXERCISES
    for i, source in enumerate(one.accepted)
]
WRONG = [
    pytest.param(one, answer, id=f"{one.address}-{answer.says[:40]}", marks=deep_if(i >= FEW))
    for one in EXERCISES
    for i, answer in enumerate(one.wrong_answers)
]


@contextmanager
def shorter_training() -> Iterator[pytest.MonkeyPatch]:
    """Have the functions of ``FIGURES`` train for a shorter time, whatever a check asks them for."""
    with pytest.MonkeyPatch.context() as patch:
        for name, options in FIGURES.items():
            patch.setattr(f"exercises.{name}", with_options(attrgetter(name)(exercises), options))
        # Its cache is for what was trained as long as in a lesson.
        patch.setattr("exercises.e06_sarsa._sarsa", exercises.e06_sarsa._sarsa.__wrapped__)
        yield patch


def with_options(function: Callable[..., Any], options: dict[str, int]) -> Callable[..., Any]:
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        return function(**{**dict(zip(names, given, strict=False)), **named, **options})

    return called


@functools.cache
def verdict_here(one: Exercise, source: str) -> Verdict:
    """The verdict on an answer, which several tests look at, without a process for it."""
    with shorter_training() as patch:
        patch.setattr(sys.modules[Exercise.__module__], "can_run_apart", lambda: False)
        return one.try_source(source)


def address(value: object) -> str:
    return value.address if isinstance(value, Exercise) else ""


def test_the_course_has_exercises_with_names_of_their_own() -> None:
    assert EXERCISES
    addresses = [one.address for one in EXERCISES]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_the_stub_is_not_done_yet(one: Exercise) -> None:
    assert verdict_here(one, one.stub).status == "todo"


@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_the_solution_is_right(one: Exercise) -> None:
    verdict = verdict_here(one, one.solution_source)
    assert verdict.ok, repr(verdict)


@pytest.mark.deep
@pytest.mark.parametrize("one", [one for one in EXERCISES if one.lesson in TRAINED], ids=address)
def test_the_solution_is_right_and_its_figure_ready_in_time(one: Exercise) -> None:
    verdict = one.try_source(one.solution_source)
    assert verdict.ok, repr(verdict)


@pytest.mark.parametrize(("one", "source"), ACCEPTED)
def test_an_unusual_answer_that_is_right_is_accepted(one: Exercise, source: str) -> None:
    verdict = verdict_here(one, source)
    assert verdict.ok, repr(verdict)


@pytest.mark.parametrize(("one", "answer"), WRONG)
def test_each_wrong_answer_gets_its_own_verdict(one: Exercise, answer: WrongAnswer) -> None:
    verdict = verdict_here(one, answer.source)
    assert not verdict.ok and verdict.status != "todo", repr(verdict)
    assert answer.says in repr(verdict)


@pytest.mark.deep
@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_a_check_in_a_process_of_its_own_gives_the_same_verdict(one: Exercise) -> None:
    # Most wrong answers end a check early; a solution also sends its figure from the process.
    some = () if one.address in TRAIN or EXERCISES.index(one) % 3 else (one.solution_source,)
    for source in (one.wrong_answers[0].source, *some):
        with shorter_training():
            apart = one.try_source(source)
        assert repr(apart) == repr(verdict_here(one, source))


@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_it_is_taught_as_every_exercise_is(one: Exercise) -> None:
    assert one.hints, "a hint is what a learner asks for first"
    assert len(one.wrong_answers) >= 2, "a check that knows no wrong answer teaches nothing"


@pytest.mark.deep
@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_no_two_kinds_of_wrong_answer_get_the_same_verdict(one: Exercise) -> None:
    said = {answer.says: repr(verdict_here(one, answer.source)) for answer in one.wrong_answers}
    assert len(set(said.values())) == len(said)


@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_hints_have_no_marks_but_those_of_code(one: Exercise) -> None:
    assert not [hint for hint in one.hints if re.search(r"\*\w|\w\*", re.sub("`[^`]*`", "", hint))]


@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_a_printed_solution_runs_in_its_place_in_the_notebook(one: Exercise) -> None:
    cells = nbformat.read(next(TUTORIALS.glob(f"{one.lesson[1:3]}_*.ipynb")), as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    before = sources[: sources.index(one.cells()[2][1])]
    bound = set(dir(builtins)).union(*(names(source, ast.Store) for source in (*before, one.solution_source)))
    assert not names(one.solution_source, ast.Load) - bound


def names(source: str, use: type[ast.expr_context]) -> set[str]:
    """The names that Python code reads, or those that it binds, in any scope."""
    found = set()
    for node in ast.walk(ast.parse(re.sub(r"(?m)^%.*", "", source))):
        match node:
            case ast.Name(name, ctx) if isinstance(ctx, use):
                found.add(name)
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.arg(name) if use is ast.Store:
                found.add(name)
            case ast.alias(name, other) if use is ast.Store:
                found.add(other or name.partition(".")[0])
    return found


@pytest.mark.parametrize("one", EXERCISES, ids=address)
def test_the_notebook_shows_task_stub_and_check_one_after_the_other(one: Exercise) -> None:
    number = one.lesson[1:3]
    notebooks = list(TUTORIALS.glob(f"{number}_*.ipynb"))
    assert len(notebooks) == 1, f"lesson {number} has one notebook, and {[nb.name for nb in notebooks]} were found"
    cells = [(cell.cell_type, cell.source) for cell in nbformat.read(notebooks[0], as_version=4).cells]
    wanted = one.cells()
    assert wanted[1] in cells, "the stub's cell is not as registered"
    start = cells.index(wanted[1]) - 1
    assert cells[start : start + 3] == wanted
    assert all(("code", line) not in cells for line in (one.solution_source, f"{one.address}.solution()"))
