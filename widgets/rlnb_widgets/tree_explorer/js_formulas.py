"""JavaScript of the score formulas, generated from :mod:`rlnb.modules.mcts.formulas`.

``score_formulas.js`` holds the result, for pages without a kernel. Write it again after a formula has changed::

    python -m rlnb_widgets.tree_explorer.js_formulas
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlnb.modules.mcts import formulas

FILE = Path(__file__).parent / "score_formulas.js"

#: The formulas that the page computes.
_FORMULAS: tuple[Callable[..., Any], ...] = (
    formulas.ucb1,
    formulas.ucb1_tuned_variance,
    formulas.ucb1_tuned_capped,
    formulas.ucb1_tuned,
    formulas.puct_constant,
    formulas.puct,
    formulas.exp3,
    formulas.gumbel_mixed_value,
    formulas.gumbel_stretched,
    formulas.gumbel_weight,
    formulas.gumbel_logit,
    formulas.gumbel_score,
)


class Symbol:
    """A number that is not known yet: arithmetic with it writes the expression in JavaScript.

    Example:
        >>> ((Symbol("a") + 1) ** 0.5).text
        '((a + 1) ** 0.5)'
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Any) -> Symbol:
        return _infix(self, "+", other)

    def __radd__(self, other: Any) -> Symbol:
        return _infix(other, "+", self)

    def __sub__(self, other: Any) -> Symbol:
        return _infix(self, "-", other)

    def __rsub__(self, other: Any) -> Symbol:
        return _infix(other, "-", self)

    def __mul__(self, other: Any) -> Symbol:
        return _infix(self, "*", other)

    def __rmul__(self, other: Any) -> Symbol:
        return _infix(other, "*", self)

    def __truediv__(self, other: Any) -> Symbol:
        return _infix(self, "/", other)

    def __pow__(self, other: Any) -> Symbol:
        return _infix(self, "**", other)

    def log(self) -> Symbol:
        """Return the natural logarithm."""
        return Symbol(f"Math.log({self.text})")

    def clip(self, low: float, high: float) -> Symbol:
        """Return the number limited to a range."""
        least = f"Math.max({self.text}, {low!r})"
        return Symbol(least if high == math.inf else f"Math.min({least}, {high!r})")


def _infix(left: Any, operator: str, right: Any) -> Symbol:
    sides = [side.text if isinstance(side, Symbol) else repr(side) for side in (left, right)]
    return Symbol(f"({sides[0]} {operator} {sides[1]})")


def score_formulas_js() -> str:
    """Return the text of ``score_formulas.js``: each formula as a function of an object with its arguments."""
    lines = [
        "// The score formulas. Generated from rlnb.modules.mcts.formulas; to write it again:",
        "// python -m rlnb_widgets.tree_explorer.js_formulas",
        "",
        "export const formulas = {",
        f"  TINY: {formulas.TINY!r},",
    ]
    for formula in _FORMULAS:
        names = list(inspect.signature(formula).parameters)
        text = formula(*map(Symbol, names)).text
        lines.append(f"  {formula.__name__}: ({{ {', '.join(names)} }}) => {text},")
    return "\n".join([*lines, "};"]) + "\n"


if __name__ == "__main__":
    FILE.write_text(score_formulas_js(), encoding="utf-8")
