"""The course's exercises: a stub to fill in, hints on request, a check that answers, a solution at the end.

A notebook imports the module of its lesson and calls three methods::

    from exercises import e01_rollouts

    e01_rollouts.count_episodes.check(count_episodes)   # says what is wrong, never raises
    e01_rollouts.count_episodes.hint()                  # one more hint each time
    e01_rollouts.count_episodes.solution()              # prints the solution

Authors write the modules ``eNN_<lesson>.py`` with what this package exports; see "An exercise" in CONTRIBUTING.md.
"""

from __future__ import annotations

import sys

from .asking import ask, fail, require, right
from .exercise import Exercise, WrongAnswer, exercise
from .registry import all_exercises
from .verdict import Outcome, Verdict

if "IPython" in sys.modules:  # in a notebook, where errors of cells are to be short
    from rlnb_widgets import explain_errors

    explain_errors()

__all__ = [
    "Exercise",
    "Outcome",
    "Verdict",
    "WrongAnswer",
    "all_exercises",
    "ask",
    "exercise",
    "fail",
    "require",
    "right",
]
