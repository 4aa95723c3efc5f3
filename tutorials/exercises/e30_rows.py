"""Exercise of lesson 30 on what a TensorDict does with an index: the same rows of every tensor, at every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

ROWS = """
    def rows(data, index):
        return {key: rows(value, index) if isinstance(value, dict) else value[index] for key, value in data.items()}
"""


@exercise(
    title="The same rows of everything",
    prompt="""
        Write `rows(data, index)`. `data` is a dictionary of tensors, which may contain further dictionaries. The result
        is a dictionary of the same form with `tensor[index]` in place of each tensor. `data` stays as it is.
    """,
    stub="""
        def rows(data, index):
            # index is whatever a tensor accepts: a number, a slice, a list, a mask
            ...
    """,
    hints=[
        "A tensor is indexed. What is to be done with a dictionary? The same as with the whole.",
        "`isinstance(value, dict)` tells the two apart, and `rows` may call itself.",
    ],
    solution=ROWS,
    wrong=[
        instead(ROWS, of="rows(value, index) if isinstance(value, dict) else ", put="", says="Error"),
        instead(ROWS, of="rows(value, index) if", put="value if", says="was not indexed"),
        instead(
            ROWS,
            of="rows(value, index) if isinstance(value, dict) else value[index] for key, value in data.items()",
            put="value[index] for key, value in data.items() if not isinstance(value, dict)",
            says="'next' is missing",
        ),
        instead(ROWS, of="else value[index]", put="else value[:index]", says="with the index 2"),
        WrongAnswer(
            """
            def rows(data, index):
                for key, value in data.items():
                    data[key] = rows(value, index) if isinstance(value, dict) else value[index]
                return data
            """,
            says="changed",
        ),
        WrongAnswer(
            """
            def rows(data, index):
                flat = {}
                for key, value in data.items():
                    flat |= rows(value, index) if isinstance(value, dict) else {key: value[index]}
                return flat
            """,
            says="'next' is missing",
        ),
    ],
    accepted=[
        """
        def rows(data, index):
            out = {}
            for key, value in data.items():
                if type(value) is dict:
                    out[key] = rows(value, index)
                else:
                    out[key] = value[index]
            return out
        """
    ],
    setup="import torch",
)
def rows(rows: Callable[..., Any]) -> Outcome:
    """Index a step of five rows in several ways."""
    data = {
        "observation": torch.arange(15.0).view(5, 3),
        "action": torch.arange(5),
        "next": {"reward": torch.arange(5.0).view(5, 1), "info": {"flag": torch.arange(5) > 2}},
    }
    for index in (2, slice(1, 4), [4, 0], torch.tensor([True, False, True, False, True])):
        _compare(ask(rows, data, index), data, index, "")
    return right("This recursion is what a TensorDict does for you, for some hundred operations and not just one.")


def _compare(got: Any, data: dict[str, Any], index: Any, where: str) -> None:
    """Be content with a dictionary that holds the rows, or say at which key it does not."""
    place = f"Below {where!r}" if where else "At the top"
    require(isinstance(got, dict), f"{place}, expected a dictionary, got {kind_of(got)}.")
    for key, value in data.items():
        require(key in got, f"{place}, {key!r} is missing: the result has {', '.join(map(repr, got)) or 'nothing'}.")
        if isinstance(value, dict):
            _compare(got[key], value, index, key)
            continue
        shown = index.tolist() if isinstance(index, torch.Tensor) else index
        require(isinstance(got[key], torch.Tensor), f"{place}, {key!r} is a `{type(got[key]).__name__}`.")
        if got[key] is value:
            fail(f"{place}, {key!r} was not indexed: it still has all {len(value)} rows.")
        require(
            got[key].shape == value[index].shape and torch.equal(got[key], value[index]),
            f"{place}, {key!r} with the index {shown} has the shape {tuple(got[key].shape)} and is "
            f"{got[key].tolist()}. The tensor itself gives {value[index].tolist()}.",
        )
    require(len(got) == len(data), f"{place} there are keys that `data` does not have: {sorted({*got} - {*data})}.")
