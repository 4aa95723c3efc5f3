"""Exercise of lesson 28 on the sum tree: find the item whose interval contains a drawn number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .sum_tree_picture import SumTreePicture
from .verdict import Outcome

#: The last but one has a priority of 0, and is never drawn.
PRIORITIES = [1.0, 0.5, 3.0, 0.5, 1.0, 4.0, 0.0, 2.0]
_MANY = 64

FIND = """
    def find(levels, mass):
        node = 0
        for sums in levels[1:]:
            left = sums[2 * node]
            if mass < left:
                node = 2 * node
            else:
                mass = mass - left
                node = 2 * node + 1
        return node
"""


@exercise(
    title="Down the sum tree",
    prompt="""
        Write `find(levels, mass)`: return the index of the item whose interval contains `mass`. `levels` are the
        levels of a sum tree, each a list: the first is `[sum of all]`, the last holds the priorities. `levels[d][i]`
        is the sum of its two children, `levels[d + 1][2 * i]` and `levels[d + 1][2 * i + 1]`. `mass` is a number from
        0 up to, but not including, the sum of all priorities. Item 0 covers the first interval, whose width is its
        priority; item 1 covers the next one, and so on. Read at most two sums per level: a million priorities have
        only 20 levels.
    """,
    stub="""
        def find(levels, mass):
            # start at the root, node 0 of levels[0], and go down through levels[1:]
            ...
    """,
    hints=[
        "If the number is smaller than the sum on the left, it lies in the left half. What if it is not?",
        "When you go right, you skip everything on the left. How much of the number remains for the right half?",
        "With `left = sums[2 * node]`: if `mass < left`, go to `2 * node`; otherwise subtract `left` from `mass` and "
        "go to `2 * node + 1`.",
    ],
    solution=FIND,
    wrong=[
        instead(FIND, of="mass = mass - left\n            ", put="", says="too far to the right"),
        instead(FIND, of="mass < left", put="mass <= left", says="on the boundary"),
        instead(FIND, of="mass < left", put="mass > left", says="the wrong direction"),
        instead(
            FIND,
            of="mass = mass - left\n            node = 2 * node + 1",
            put="mass = mass - sums[2 * node + 1]\n            node = 2 * node + 1",
            says="Is it the part you skipped",
        ),
        instead(FIND, of="mass < left", put="left >= sums[2 * node + 1]", says="whatever `mass` is"),
        instead(FIND, of="return node", put="return levels[-1][node]", says="a `float`"),
        instead(FIND, of="return node", put="return node + len(levels[-1]) - 1", says="across all levels"),
        instead(FIND, of="return node", put="return node + 1", says="Expected an index from 0 to 7"),
        instead(FIND, of="levels[1:]", put="levels[1:-1]", says="one level too early"),
        WrongAnswer(
            """
            def find(levels, mass):
                for index, priority in enumerate(levels[-1]):
                    if mass < priority:
                        return index
                    mass = mass - priority
            """,
            says="It read 64 numbers",
        ),
        WrongAnswer(
            """
            def find(levels, mass):
                return int(mass / levels[0][0] * len(levels[-1]))
            """,
            says="equally wide",
        ),
    ],
)  # fmt: skip
def find(find: Callable[..., Any]) -> Outcome:
    """Check numbers at the boundaries and in the middle of each interval; then count the reads in a larger tree."""
    levels = _levels(PRIORITIES)
    asked = _masses(PRIORITIES)
    answers = [_asked(find, levels, mass) for mass, _ in asked]
    wrong = [(mass, leaf, got) for (mass, leaf), got in zip(asked, answers, strict=True) if got != leaf]
    if wrong:
        _explain(levels, answers, wrong)
    many = [float(1 + (7 * i) % 5) for i in range(_MANY)]
    tree = [_Watched(level) for level in _levels(many)]
    for mass, leaf in _masses(many):
        got = ask(find, tree, mass, may_change=True)
        require(got == leaf, f"In a tree of {_MANY} priorities, expected item {leaf} for {mass:g}, got {got}.")
    for level in tree:
        level.read = 0
    ask(find, tree, sum(many) - 0.5, may_change=True)
    read, most = sum(level.read for level in tree), 2 * len(tree)
    what = f"The answers are right. It read {read} numbers to find one of {_MANY} items; {most} are enough."
    require(read <= most, what)
    return right(
        f"In a tree of {_MANY} items it read {read} numbers. Twice as many items add only one level. The drawn number "
        "is a position in the picture, and going down finds the item below it.",
        SumTreePicture(levels, 6.5),
    )


class _Watched(list[float]):
    """A level that counts how many of its numbers are read."""

    read = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.read += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self) -> Iterator[float]:
        for value in super().__iter__():
            self.read += 1
            yield value


def _levels(priorities: Sequence[float]) -> list[list[float]]:
    levels = [list(priorities)]
    while len(levels[0]) > 1:
        below = levels[0]
        levels.insert(0, [below[i] + below[i + 1] for i in range(0, len(below), 2)])
    return levels


def _masses(priorities: Sequence[float]) -> list[tuple[float, int]]:
    """Numbers and the items whose intervals contain them: the lower boundary, the middle and nearly the upper one."""
    found, start = [], 0.0
    for index, priority in enumerate(priorities):
        if priority:
            found += [(start + share * priority, index) for share in (0.0, 0.5, 0.99)]
        start += priority
    return found


def _asked(find: Callable[..., Any], levels: list[list[float]], mass: float) -> int:
    got = ask(find, levels, mass)
    if isinstance(got, torch.Tensor) and got.numel() == 1 and not got.dtype.is_floating_point:
        got = got.item()
    index = isinstance(got, int) and not isinstance(got, bool)
    require(index, f"Expected the index of an item, got {kind_of(got)}.")
    return int(got)


def _explain(levels: list[list[float]], answers: list[int], wrong: list[tuple[float, int, int]]) -> None:
    """Name the mistake behind the items that are found."""
    mass, leaf, got = wrong[0]
    n = len(levels[-1])
    said = f"For {mass:g} it gave {got}. "
    if all(one == two + n - 1 for _, two, one in wrong):
        fail(f"{said}It numbers the nodes across all levels; {n - 1} of them lie above the items.")
    if any(not 0 <= one < n for one in answers):
        bad = next(one for one in answers if not 0 <= one < n)
        fail(f"Expected an index from 0 to {n - 1}, got {bad}.")
    picture = SumTreePicture(levels, mass, got)
    if len(set(answers)) == 1:
        fail(f"It gives {got} whatever `mass` is. Which number should decide?", picture)
    if all(one == two // 2 for _, two, one in wrong):
        fail(f"{said}It stops one level too early.", picture)
    if answers == [int(mass / levels[0][0] * n) for mass, _ in _masses(levels[-1])]:
        fail(f"{said}This treats all intervals as equally wide; each is as wide as its priority.", picture)
    borders = {start for start, _ in _masses(levels[-1])[::3]}
    if all(mass in borders for mass, _, _ in wrong):
        fail(
            f"Numbers on the boundary between two items are wrong: expected item {leaf} for {mass:g}, got {got}. At "
            "worst it draws an item of priority 0.",
            picture,
        )
    mirrored = sum(one > leaf for _, leaf, one in wrong), sum(one < leaf for _, leaf, one in wrong)
    if mass == 0 and got > 0 and mirrored[1] > 2:
        fail(f"{said}It goes in the wrong direction: 0 lies at the left edge of the tree.", picture)
    if not mirrored[1]:
        fail(f"{said}That is too far to the right. How much of the number remains after a step to the right?", picture)
    fail(f"{said}It subtracts something on the way down. Is it the part you skipped?", picture)
