"""The libraries of the extra ``rlhf``: imported when they are needed, with an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType


def require_library(name: str, needed_by: str) -> ModuleType:
    """Import a library of the extra ``rlhf``.

    Args:
        name: "datasets", "tokenizers" or "transformers".
        needed_by: the name of what needs it, for the error.

    Raises:
        ImportError: If it is not installed.

    Example:
        >>> require_library("datasets", "PairwiseDataset").__name__
        'datasets'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise  # the library is there, and something that it needs is not
        raise ImportError(
            f'{needed_by} needs {name}, which is not installed. Fix: pip install "rlnb[rlhf]".', name=name
        ) from None
