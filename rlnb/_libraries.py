"""Optional libraries: imported when they are needed, with an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType


def require_library(module: str, needed_by: str, fix: str) -> ModuleType:
    """Import a library, or one of its modules.

    Args:
        module: its dotted name.
        needed_by: the name of what needs it, for the error.
        fix: how to install it.

    Raises:
        ImportError: If the library is not installed.

    Example:
        >>> require_library("spinning_tops.red", "A game", "pip install spinning-tops")
        Traceback (most recent call last):
        ImportError: A game needs spinning_tops, which is not installed. Fix: pip install spinning-tops.
    """
    library = module.partition(".")[0]
    try:
        importlib.import_module(library)  # first, so that the error names it and not a module in it
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise  # the library is there, and something that it needs is not
        raise ImportError(f"{needed_by} needs {library}, which is not installed. Fix: {fix}.", name=library) from None
