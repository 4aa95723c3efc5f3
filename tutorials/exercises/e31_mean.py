"""Exercise of lesson 31 on data larger than memory: a mean over a file, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data import SavedTensorDict

from .asking import ask, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

MEAN = """
    def mean_of(saved, key, rows):
        total = 0.0
        for start in range(0, len(saved), rows):
            total += saved[start : start + rows][key].sum().item()
        return total / saved.get_meta(key).shape.numel()
"""


class Watched(SavedTensorDict):
    """A SavedTensorDict that remembers how many rows were in memory at once."""

    most = 0

    def _keep(self, value: Any) -> Any:
        rows = value.batch_size[0] if getattr(value, "batch_size", None) else 1
        self.most = max(self.most, rows)
        return value

    def __getitem__(self, index: Any) -> Any:
        """Load rows, and remember how many."""
        value = super().__getitem__(index)
        if isinstance(value, torch.Tensor) or not isinstance(index, (int, slice)):
            self.most = max(self.most, len(self) if isinstance(index, (str, tuple)) else len(value))
            return value
        return self._keep(value)

    def get(self, key: Any, *default: Any) -> Any:
        """Load all rows of an entry."""
        self.most = len(self)
        return super().get(key, *default)

    def load(self, device: Any = None) -> Any:
        """Load all rows."""
        self.most = len(self)
        return super().load(device)


@exercise(
    title="A mean without loading it all",
    prompt="""
        Write `mean_of(saved, key, rows)`: the mean of all numbers of one entry of a `SavedTensorDict`, with at most
        `rows` rows in memory at once. The number of rows need not be a multiple of `rows`.
    """,
    stub="""
        def mean_of(saved, key, rows):
            # saved[a:b] loads the rows from a to b; saved.get_meta(key).shape is the shape of the entry
            ...
    """,
    hints=[
        "`saved[key]` reads the whole entry. `saved[0:rows]` reads the first rows of each.",
        "The last piece may be shorter than the others. Is the mean of the means the mean of all?",
        "Add up the sums of the pieces, and divide once. `shape.numel()` is how many numbers an entry has.",
    ],
    solution=MEAN,
    wrong=[
        WrongAnswer("def mean_of(saved, key, rows): return saved[key].mean()", says="103 rows in memory"),
        WrongAnswer("def mean_of(saved, key, rows): return saved.load()[key].mean()", says="103 rows in memory"),
        WrongAnswer(
            """
            def mean_of(saved, key, rows):
                means = [saved[i : i + rows][key].mean() for i in range(0, len(saved), rows)]
                return sum(means) / len(means)
            """,
            says="The last piece is shorter",
        ),
        instead(MEAN, of="len(saved), rows)", put="len(saved) - rows, rows)", says="some rows are missing"),
        instead(MEAN, of=".shape.numel()", put=".shape[0]", says="by the number of rows"),
        instead(MEAN, of="range(0, len(saved), rows)", put="[0]", says="some rows are missing"),
        instead(MEAN, of=" / saved.get_meta(key).shape.numel()", put="", says="This is the sum"),
    ],
    setup="import torch",
)
def mean_of(mean_of: Callable[..., Any]) -> Outcome:
    """Ask for two entries, one of them nested, of a file whose rows are no multiple of ten."""
    count, rows = 103, 10
    data: dict[str, Any] = {
        "x": torch.arange(2.0 * count).view(count, 2).square(),
        "n": {"y": torch.arange(1.0, count + 1)},
    }
    saved = Watched(data, [count])
    for key, values in (("x", data["x"]), (("n", "y"), data["n"]["y"])):
        saved.most = 0
        got = ask(mean_of, saved, key, rows, may_change=True)  # a copy would load it
        require(isinstance(got, (int, float, torch.Tensor)), f"Expected a number, got {kind_of(got)}.")
        require(saved.most <= rows, f"There were {saved.most} rows in memory at once, and {rows} are allowed.")
        _compare(float(got), values, rows)
    return right("The file could hold a hundred times more: the memory that this takes would be the same.")


def _compare(got: float, values: torch.Tensor, rows: int) -> None:
    """Be content with the mean, or name the mistake."""

    def near(number: Any) -> bool:
        return abs(got - float(number)) <= 1e-4 * abs(float(number))

    if near(values.double().mean()):
        return
    pieces = values.split(rows)
    why = "Are all rows in it, each once?"
    if near(sum(piece.double().mean() for piece in pieces) / len(pieces)):
        why = "The last piece is shorter than the others, and counts as much as they do."
    elif near(values.double().sum()):
        why = "This is the sum of all numbers."
    elif values.ndim > 1 and near(values.double().sum() / len(values)):
        why = "The sum was divided by the number of rows, and a row has several numbers."
    elif got < float(values.double().mean()):
        why = "It is too low: some rows are missing."
    require(False, f"It gave {got:.2f}, and the mean is {float(values.double().mean()):.2f}. {why}")
