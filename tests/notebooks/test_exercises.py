"""Every exercise of the course: its stub, its solution, its wrong answers, and its cells in the notebook."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from exercises import Exercise, Verdict, WrongAnswer, all_exercises

from tests.long_lessons import SHORTER

TUTORIALS = Path(__file__).parents[2] / "tutorials"
EXERCISES = all_exercises()
# A check that trains an agent takes seconds: `make test` runs it with the solution alone. These take the longest,
# and other exercises of their lessons train, too.
LONGEST = {
    "e06_sarsa.expected_sarsa", "e08_actor_critic.reinforce_loss", "e09_ppo.clipped_loss", "e09_ppo.entropy",
    "e10_sac.soft_target",
}  # fmt: skip
TRAIN = LONGEST | {one.address for one in EXERCISES if one.lesson[1:3] in {name[:2] for name in SHORTER}}
FEW = 3  # wrong answers to an exercise that `make test` tries


def deep_if(condition: object) -> Any:
    return pytest.mark.deep if condition else ()


SOLUTIONS = [pytest.param(one, id=one.address, marks=deep_if(one.address in LONGEST)) for one in EXERCISES]
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


@functools.cache
def verdict_here(one: Exercise, source: str) -> Verdict:
    """The verdict on an answer, which several tests look at, without a process for it."""
    with pytest.MonkeyPatch.context() as patch:
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


@pytest.mark.parametrize("one", SOLUTIONS)
def test_the_solution_is_right(one: Exercise) -> None:
    verdict = verdict_here(one, one.solution_source)
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
        assert repr(one.try_source(source)) == repr(verdict_here(one, source))


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
