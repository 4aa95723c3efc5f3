"""Find every exercise of the course."""

from __future__ import annotations

import importlib
import pkgutil
import re

from .exercise import Exercise

_LESSON = re.compile(r"e\d\d_\w+")


def all_exercises() -> list[Exercise]:
    """Import every lesson's module ``eNN_<lesson>`` and list its exercises.

    Returns:
        The exercises, in the order of the lessons and of their definition.
    """
    package = importlib.import_module(__package__ or "exercises")
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__) if _LESSON.fullmatch(info.name))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Exercise)]
