"""The map of the course agrees with the lessons: their numbers, times, needs, and what comes next."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from exercises.course_map import TRACKS, CourseMap, Lesson

TUTORIALS = Path(__file__).parents[2] / "tutorials"
LESSONS = [lesson for track in TRACKS for lesson in track.lessons]
NAMES = {lesson.number: lesson.name for lesson in LESSONS}

each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def cells(lesson: Lesson) -> list[nbformat.NotebookNode]:
    return nbformat.read(TUTORIALS / f"{lesson.name}.ipynb", as_version=4).cells


def test_it_shows_every_lesson_once() -> None:
    assert [lesson.name for lesson in LESSONS] == sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))
    shown = repr(CourseMap()).splitlines()
    assert [line[2:4] for line in shown if line.startswith("  ")] == [f"{number:02d}" for number in NAMES]


@each_lesson
def test_a_lesson_states_its_time_and_links_to_what_it_needs(lesson: Lesson) -> None:
    opening = cells(lesson)[0].source.split("\n## ")[0]
    found = re.search(r"About (\d+) minutes", opening)
    assert found and int(found[1]) == lesson.minutes
    needs = re.search(r"Needs:?\s.*?\.(?:\n|$)", opening, re.DOTALL)
    links = re.findall(r"\]\((.*?)\.ipynb\)", needs[0]) if needs else []
    assert sorted(links) == [NAMES[number] for number in lesson.needs]
    assert all(number < lesson.number for number in lesson.needs)


@each_lesson
def test_a_lesson_ends_with_a_link_to_the_one_that_comes_next(lesson: Lesson) -> None:
    following = [other.name for other in LESSONS if other.number > lesson.number][:1]
    found = re.search(r"\*\*Next:\*\*.*?\]\((.*?)\.ipynb\)", cells(lesson)[-1].source, re.DOTALL)
    assert ([found[1]] if found else []) == following


@each_lesson
def test_links_to_other_lessons_lead_somewhere(lesson: Lesson) -> None:
    text = "\n".join(cell.source for cell in cells(lesson) if cell.cell_type == "markdown")
    for name, place in re.findall(r"\]\(([\w./-]+\.ipynb)(#[^)]*)?\)", text):
        assert (TUTORIALS / name).is_file(), name
        assert not place, "headings are renamed without notice: link to the lesson"


def test_the_welcome_states_the_total() -> None:
    hours = sum(track.minutes for track in TRACKS) / 60
    text = "\n".join(cell.source for cell in cells(LESSONS[0]))
    found = re.search(r"about\s(\d+)\shours, exercises included", text)
    assert found and abs(int(found[1]) - hours) <= 0.5
    assert TRACKS[0].minutes < 8 * 60 and "the spine alone takes less than eight" in text
