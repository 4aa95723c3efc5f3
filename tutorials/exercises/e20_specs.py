"""Exercises of lesson 20 on writing specs: one that describes given data, and that of a batch of such data."""

from __future__ import annotations

from typing import Any

import torch
from rlnb_widgets import SpecExplorer
from tensordict import TensorDict

from rlnb.data import Binary, Bounded, Composite, OneHot, TensorSpec

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

SETUP = """
import torch
from rlnb.data import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
"""

ROBOT = """
    robot_spec = Composite(
        position=Bounded(-1, 1, shape=(2,)),
        direction=OneHot(4),
        panel=Composite(lamps=Binary(3)),
    )
"""

KEYS: dict[str, Any] = {"position": "position", "direction": "direction", "lamps": ("panel", "lamps")}

# Values at the edges of what each sentence of the task allows, and values beyond them, each with what it is.
LEGAL: dict[str, list[tuple[list[float], str]]] = {
    "position": [([-1.0, 1.0], "a corner of the floor"), ([1.0, -1.0], "a corner of the floor")],
    "direction": [([float(i == j) for j in range(4)], "one of the four directions") for i in range(4)],
    "lamps": [([0, 0, 0], "all lamps dark"), ([1, 1, 1], "all lamps lit"), ([0, 1, 0], "one lamp lit")],
}
ILLEGAL: dict[str, list[tuple[list[float], str]]] = {
    "position": [([1.5, 0.0], "off the floor"), ([0.0, -1.5], "off the floor")],
    "direction": [([1, 1, 0, 0], "two directions at once"), ([0, 0, 0, 0], "no direction at all")],
    "lamps": [([0, 2, 0], "a lamp that is neither dark nor lit"), ([0, 0, -1], "a lamp that is neither dark nor lit")],
}


def robot_spec() -> Composite:
    """Make the spec that the first exercise asks for."""
    return Composite(position=Bounded(-1, 1, shape=(2,)), direction=OneHot(4), panel=Composite(lamps=Binary(3)))


def _step() -> TensorDict:
    """One step of the robot's data, as the stub shows it."""
    return TensorDict(
        {
            "position": torch.tensor([0.25, -0.75]),
            "direction": torch.tensor([False, True, False, False]),
            "panel": {"lamps": torch.tensor([1, 0, 1], dtype=torch.int8)},
        }
    )


@exercise(
    title="Describe the robot",
    prompt="""
        A robot drives about on a square floor and has a panel with three lamps. The stub shows one step of its data.
        Write `robot_spec`, a `Composite` that describes such data:

        - `"position"`: two numbers, each from -1 to 1;
        - `"direction"`: one of the four directions, as a one-hot vector;
        - `"lamps"`, under `"panel"`: for each of three lamps a 1 if it is lit, a 0 if not; any of them may be lit.

        What the robot can send must be in the spec, and nothing else.
    """,
    stub="""
        # {"position": tensor([0.25, -0.75]),
        #  "direction": tensor([False, True, False, False]),
        #  "panel": {"lamps": tensor([1, 0, 1], dtype=torch.int8)}}
        robot_spec = ...
    """,
    hints=[
        "Take one entry after the other, and ask for each: numbers between bounds, one of several choices, or bits?",
        "The position is a `Bounded`, with a shape. For the direction see the row of the table that says one-hot. "
        "Lamps that are lit or not, each on its own, are a `Binary`.",
        "A nested key needs a `Composite` in the `Composite`: `Composite(position=..., direction=..., "
        "panel=Composite(lamps=...))`.",
    ],
    solution=ROBOT,
    wrong=[
        instead(ROBOT, of="Bounded(-1, 1", put="Bounded(0, 1", says="refuses"),
        instead(ROBOT, of="Bounded(-1, 1, shape=(2,))", put="Unbounded((2,))", says="off the floor"),
        instead(ROBOT, of="(2,))", put="(2,), dtype=torch.float64)", says="`torch.float64`"),
        instead(ROBOT, of="(2,)", put="(1,)", says="shape [1]"),
        instead(ROBOT, of="OneHot(4)", put="Categorical(4)", says="written as an index"),
        instead(ROBOT, of="OneHot(4)", put="Binary(4, dtype=torch.bool)", says="two directions at once"),
        instead(ROBOT, of="Binary(3)", put="OneHot(3, dtype=torch.int8)", says="all lamps dark"),
        instead(ROBOT, of="Binary(3)", put="Bounded(0, 3, shape=(3,), dtype=torch.int8)", says="neither dark nor lit"),
        instead(ROBOT, of="Binary(3)", put="Categorical(2, shape=(3,))", says="`torch.int64`"),
        instead(ROBOT, of="    panel=Composite(lamps=Binary(3)),\n", put="", says="has no key"),
        instead(ROBOT, of="panel=Composite(lamps=Binary(3))", put="lamps=Binary(3)", says="the wrong level"),
        instead(
            ROBOT, of="Composite(lamps=Binary(3)),\n", put="Composite(lamps=Binary(3)), speed=None\n", says="sends no"
        ),
        WrongAnswer("robot_spec = dict(position=Bounded(-1, 1, shape=(2,)))", says="got a `dict`"),
        WrongAnswer(
            "robot_spec = Composite(position=Bounded(-1, 1, shape=(2, 2)), direction=OneHot(4, shape=(2, 4)), "
            "panel=Composite(lamps=Binary(3, shape=(2, 3)), shape=(2,)), shape=(2,))",
            says="a batch",
        ),
    ],
    setup=SETUP,
)
def describe(robot_spec: Any) -> Outcome:
    """Look at the keys, then at shape and dtype of each leaf, then at values on both sides of its edges."""
    require(isinstance(robot_spec, TensorSpec), f"Expected a spec, got {kind_of(robot_spec)}.")
    picture = SpecExplorer(robot_spec)
    what = f"It is {kind_of(robot_spec)}, the spec of one tensor. The data have several entries."
    require(isinstance(robot_spec, Composite), what, picture)
    require(not robot_spec.shape, f"Its shape is {list(robot_spec.shape)}: that is a batch of robots.", picture)
    _check_keys(robot_spec, picture)
    for name, key in KEYS.items():
        _check_leaf(name, robot_spec[key], _step()[key], picture)
    return right("Below is what you wrote, as a picture. Draw a few samples from it.", picture)


def _check_keys(spec: Composite, picture: SpecExplorer) -> None:
    """Require exactly the keys of the data."""
    got = list(spec.keys(True, True))
    for name, key in KEYS.items():
        if key not in got:
            elsewhere = [found for found in got if (found if isinstance(found, str) else found[-1]) == name]
            at = f" It has `{elsewhere[0]!r}`, which is the wrong level." if elsewhere else ""
            fail(f"It has no key `{key!r}`.{at}", picture)
    extra = [key for key in got if key not in KEYS.values()]
    require(not extra, f"It has a key `{extra[0]!r}`, and the robot sends no such thing." if extra else "", picture)


def _check_leaf(name: str, spec: TensorSpec, value: torch.Tensor, picture: SpecExplorer) -> None:
    """Require of a leaf that it fits the data, all that is legal, and nothing else."""
    if spec.shape != value.shape:
        what = f"`{name}` has the shape {list(spec.shape)} in the spec, and {list(value.shape)} in the data."
        if name == "direction" and spec.domain == "discrete" and not spec.shape:
            what += " One of four choices, yes; but this spec wants it written as an index."
        fail(what.replace("has the shape []", "has the shape [], a single number,"), picture)
    what = f"`{name}` has the dtype `{spec.dtype}` in the spec, and `{value.dtype}` in the data."
    require(spec.dtype == value.dtype, what, picture)
    for numbers, meaning in LEGAL[name]:
        said = f"For `{name}` it refuses {_numbers(numbers)}, which is {meaning} and must be legal."
        require(spec.is_in(torch.tensor(numbers).to(value.dtype)), said, picture)
    for numbers, meaning in ILLEGAL[name]:
        said = f"For `{name}` it accepts {_numbers(numbers)}, which is {meaning}."
        require(not spec.is_in(torch.tensor(numbers).to(value.dtype)), said, picture)


def _numbers(numbers: list[float]) -> str:
    return "[" + ", ".join(f"{number:g}" for number in numbers) + "]"


@exercise(
    title="A fleet of robots",
    prompt="""
        Write `fleet(spec, n)`: the spec of `n` robots side by side, made of the spec of one. The data have
        the batch size `[n]`, and each robot's row must be what `spec` describes. `spec` itself stays as it is.
    """,
    stub="""
        def fleet(spec, n):
            # spec.shape is []; spec["position"].shape is [2]
            ...
    """,
    hints=[
        "The batch dimension comes first, in every entry, and in the shape of each `Composite`.",
        "You need not write the leaves again. What did `expand` do above?",
        "One way is `spec.expand(n)`, another is `torch.stack` of a list with `n` times the spec.",
    ],
    solution="""
        def fleet(spec, n):
            return spec.expand(n)
    """,
    wrong=[
        WrongAnswer("def fleet(spec, n): return spec", says="is still that of one robot"),
        WrongAnswer("def fleet(spec, n): return [spec] * n", says="got a `list`"),
        WrongAnswer("def fleet(spec, n): return spec.expand(n, 1)", says="1 more dimension"),
        WrongAnswer("def fleet(spec, n): return spec.expand(5)", says="whatever `n` is"),
        WrongAnswer("def fleet(spec, n): return spec.expand(n)['position']", says="one entry"),
        WrongAnswer(
            """
            def fleet(spec, n):
                return Composite({key: leaf.expand(n, *leaf.shape) for key, leaf in spec.items()})
            """,
            says="the batch size of the whole",
        ),
        WrongAnswer(
            """
            def fleet(spec, n):
                return Composite(
                    position=Bounded(-1, 1, shape=(2, n)),
                    direction=OneHot(4, shape=(n, 4)),
                    panel=Composite(lamps=Binary(3, shape=(n, 3))),
                )
            """,
            says="at the end",
        ),
        WrongAnswer(
            """
            def fleet(spec, n):
                return Composite(
                    position=Bounded(-1, 1, shape=(n, 2)),
                    direction=OneHot(4),
                    panel=Composite(lamps=Binary(3, shape=(n, 3))),
                    shape=(n,),
                )
            """,
            says="ValueError",
        ),
        WrongAnswer(
            """
            def fleet(spec, n):
                return Composite(
                    position=Bounded(-1, 1, shape=(n, 2)),
                    direction=OneHot(4),
                    panel=Composite(lamps=Binary(3, shape=(n, 3))),
                )
            """,
            says="has no batch dimension",
        ),
        WrongAnswer(
            """
            def fleet(spec, n):
                return Composite(
                    position=Unbounded((n, 2)),
                    direction=OneHot(4, shape=(n, 4)),
                    panel=Composite(lamps=Binary(3, shape=(n, 3)), shape=(n,)),
                    shape=(n,),
                )
            """,
            says="is not the one that it was",
        ),
        WrongAnswer(
            """
            def fleet(spec, n):
                del spec["panel"]
                return spec.expand(n)
            """,
            says="changed its input",
        ),
    ],
    setup=SETUP,
)
def fleet(fleet: Any) -> Outcome:
    """Look at the shapes of the leaves first, then at the batch size, then at the row of one robot."""
    one = robot_spec()
    for n in (5, 3):
        given = one.clone()
        got = ask(fleet, given, n, may_change=True)
        require(given == one, "`fleet` changed its input. Make a new spec, and leave the one of a single robot alone.")
        require(isinstance(got, TensorSpec), f"Expected a spec, got {kind_of(got)}.")
        picture = SpecExplorer(got)
        what = f"It is {kind_of(got)}, the spec of one entry of the data. Where are the others?"
        require(isinstance(got, Composite), what, picture)
        _check_keys(got, picture)
        _check_shapes(got, one, n, picture)
        for key in KEYS.values():
            what = f"The shapes are right, but the spec of `{key!r}` for one robot is not the one that it was."
            require(got[key][0] == one[key], what, lambda got=got: SpecExplorer(got[0], one))
    return right(
        "`fleet(spec, 5)[0]` is the spec of the first robot. An index reaches through to every entry.", picture
    )


def _check_shapes(got: Composite, one: Composite, n: int, picture: SpecExplorer) -> None:
    """Require the batch dimension in front, in each leaf and in the whole."""
    said = f"For n = {n} "
    leaves = {key: (list(got[key].shape), list(one[key].shape)) for key in KEYS.values()}
    if list(got.shape) != [n] and all(have == [*got.shape, *own] for have, own in leaves.values()):
        if not got.shape:
            fail(f"{said}the spec is still that of one robot.", picture)
        more = f"{said}its batch size is {list(got.shape)}"
        if got.ndim > 1:
            fail(f"{more}: that is {got.ndim - 1} more dimension than wanted.", picture)
        fail(f"{more}. Is it the same, whatever `n` is?", picture)
    for key, (have, own) in leaves.items():
        if have == [n, *own]:
            continue
        shape = f"{said}the shape of `{key!r}` is {have}"
        require(have != own, f"{shape}: it has no batch dimension.", picture)
        require(have != [*own, n], f"{shape}: the batch dimension is at the end of it.", picture)
        fail(f"{shape}. What would it be for a batch of {n}?", picture)
    what = "Every entry begins with it, and the batch size of the whole must say so."
    require(list(got.shape) == [n], f"{said}the spec has the shape {list(got.shape)}. {what}", picture)
