"""Exercises of lesson 1 on the shape of a rollout: write its loop, and find where one does not hang together."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TEDExplorer
from tensordict import TensorDictBase

from .asking import ask, fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import cart_pole, several_episodes, some, where
from .verdict import Outcome

SETUP = """
import torch
from rlnb.envs import step_mdp
"""

COLLECT = """
    def collect(env, max_steps):
        td = env.reset()
        steps = []
        for _ in range(max_steps):
            td = env.step(env.rand_action(td))
            steps.append(td)
            if td["next", "done"]:
                break
            td = step_mdp(td)
        return torch.stack(steps)
"""


@exercise(
    title="Your own rollout",
    prompt="""
        Write `collect(env, max_steps)`. It takes random steps, as you did by hand above. It starts with a reset and
        stops at the end of the episode, or after `max_steps` steps. It returns the steps in one TensorDict with a time
        dimension: `torch.stack` makes that from a list of TensorDicts. With the same seed the result is that of
        `env.rollout(max_steps)`.
    """,
    stub="""
        def collect(env, max_steps):
            steps = []
            ...
            return torch.stack(steps)
    """,
    hints=[
        "In each round of the loop: write a random action, take the step, keep the TensorDict in the list. What makes "
        "the root of the round that follows?",
        'It is `td = step_mdp(td)`. And `td["next", "done"]` says whether the step was the last of the episode.',
        'The loop is `for _ in range(max_steps):`, and it ends early with `if td["next", "done"]: break`. Put that '
        "after the line that keeps the step, so that the last step is kept too.",
    ],
    solution=COLLECT,
    wrong=[
        instead(COLLECT, of='["next", "done"]', put='["done"]', says="after the end of the episode"),
        instead(COLLECT, of="td = step_mdp(td)", put="pass", says="the same TensorDict"),
        instead(COLLECT, of="rand_action(td)", put="rand_action(env.reset())", says="does not go on where"),
        instead(COLLECT, of="append(td)", put='append(td.exclude("next"))', says='`"next"` is missing'),
        instead(COLLECT, of="append(td)", put="append(step_mdp(td))", says='`"action"` is missing'),
        instead(COLLECT, of="range(max_steps)", put="range(max_steps + 1)", says="one too many"),
        instead(COLLECT, of="range(max_steps)", put="range(10_000)", says="at all?"),
        instead(COLLECT, of="torch.stack(steps)", put="steps", says="It gave a `list`"),
        instead(
            COLLECT,
            of='steps.append(td)\n        if td["next", "done"]:\n            break',
            put='if td["next", "done"]:\n            break\n        steps.append(td)',
            says="the last step of the episode",
        ),
        WrongAnswer("def collect(env, max_steps): return env.rollout(max_steps)", says="by hand"),
        instead(COLLECT, of="    return torch", put="        return torch", says="Is the `return` inside the loop?"),
    ],
    setup=SETUP,
)
def collect(collect: Callable[..., Any]) -> Outcome:
    """Compare the learner's loop with ``rollout``, where the limit ends it and where the episode does."""
    for max_steps in (5, 200):
        env = cart_pole(500)
        env.set_seed(0)
        wanted = env.rollout(max_steps)
        env.set_seed(0)
        env.rollout = _no_rollout  # type: ignore[assignment,method-assign]
        with warnings.catch_warnings():  # gymnasium warns of steps after the end; the verdict says it better
            warnings.simplefilter("ignore")
            got = ask(collect, env, max_steps)
        require(isinstance(got, TensorDictBase), f"It gave a `{type(got).__name__}`, and a TensorDict is wanted.")
        _check_rows(got)
        _check_length(len(got), len(wanted), max_steps)
        same = set(got.keys(True, True)) == set(wanted.keys(True, True)) and bool((got == wanted).all())
        require(
            same,
            f"With `max_steps={max_steps}` and the same seed `env.rollout` gives other numbers. Is there exactly one "
            "`env.reset()`, and one `env.rand_action` a step?",
            TEDExplorer(got, other=wanted),
        )
    return right("It is what `env.rollout` gives, key by key and number by number.")


def _no_rollout(*args: Any, **kwargs: Any) -> None:
    fail("It calls `env.rollout`. Write the loop by hand this time: `reset`, `rand_action`, `step`, `step_mdp`.")


def _check_rows(got: TensorDictBase) -> None:
    """Each row must be a whole step that goes on where the row before it stopped."""
    require(got.ndim == 1, f"Its batch size is {list(got.batch_size)}, and one dimension is wanted: time.")
    for key in ("action", "next"):
        what = f'`"{key}"` is missing at the root. Is what you keep a whole step: what was known, the action, `"next"`?'
        require(key in got.keys(), what)  # noqa: SIM118 - `in` asks a TensorDict for values
    root, following = got["observation"], got["next", "observation"]
    if len(got) > 1 and bool((root == root[0]).all()):
        fail("All rows have the same root: the loop worked on the same TensorDict over and over.", TEDExplorer(got))
    broken = where((root[1:] != following[:-1]).any(-1))
    if broken:
        t = broken[0]
        said = f'Row {t + 1} does not go on where row {t} stopped: its root is not the `"next"` of row {t}.'
        fail(said, TEDExplorer(got, t=t))


def _check_length(rows: int, wanted: int, max_steps: int) -> None:
    if rows == wanted:
        return
    said = f"With `max_steps={max_steps}` it took {rows} step{'s' * (rows != 1)}"
    if rows == 1:
        fail(f"{said}, and returned. Is the `return` inside the loop?")
    if wanted == max_steps:
        fail(f"{said}{', one too many' if rows == wanted + 1 else '. Does the loop know of `max_steps` at all?'}")
    if rows > wanted:
        fail(f"{said}. It went on after the end of the episode, which was step {wanted - 1}.")
    if rows == wanted - 1:
        fail(f"{said}, and the last step of the episode is not among them.")
    fail(f"{said}, and `env.rollout` takes {wanted}.")


FIRST_BREAK = """
    def first_break(td):
        following = td["next", "observation"][:-1]
        root = td["observation"][1:]
        done = td["next", "done"][:-1].squeeze(-1)
        breaks = ((following != root).any(-1) & ~done).nonzero().flatten().tolist()
        return breaks[0] if breaks else None
"""


@exercise(
    title="Find the break",
    prompt="""
        Somebody changed numbers in a rollout. Write `first_break(td)`: the first step *t* whose `"next"` observation is
        not the root observation of step *t* + 1, although the episode goes on. It is `None` if there is no such step.
    """,
    stub="""
        def first_break(td):
            # td["next", "observation"][:-1] belongs to the steps 0 to T - 2
            # td["observation"][1:] belongs to the steps 1 to T - 1
            ...
    """,
    hints=[
        "The two pieces in the stub's comments are of the same length: row t of the one must equal row t of the other. "
        "At which rows do they differ in any of the four numbers?",
        '`differs = (td["next", "observation"][:-1] != td["observation"][1:]).any(-1)`. Where an episode ends they may '
        "differ, since a reset comes between. Which entry marks the ends?",
        'With `done = td["next", "done"][:-1].squeeze(-1)` the breaks are at `(differs & ~done).nonzero()`. Take the '
        "first, if there is one.",
    ],
    solution=FIRST_BREAK,
    wrong=[
        instead(FIRST_BREAK, of=" & ~done", put="", says="An episode ends there"),
        instead(FIRST_BREAK, of='"done"', put='"terminated"', says="it was truncated"),
        WrongAnswer(
            """
            def first_break(td):
                differs = (td["next", "observation"] != td["observation"]).any(-1)
                return int(differs.int().argmax()) if differs.any() else None
            """,
            says="the root of the same row",
        ),
        instead(FIRST_BREAK, of="breaks[0] if breaks else None", put="breaks[0]", says="IndexError"),
        instead(FIRST_BREAK, of="else None", put="else 0", says="nor anywhere else"),
        instead(FIRST_BREAK, of="breaks[0] if", put="breaks[0] + 1 if", says="one step too late"),
        instead(FIRST_BREAK, of=".any(-1)", put=".all(-1)", says="one of the four numbers"),
        instead(FIRST_BREAK, of="breaks[0] if", put="breaks[-1] if", says="not the first"),
        instead(FIRST_BREAK, of="breaks[0] if breaks else None", put="bool(breaks)", says="It gave a `bool`"),
    ],
    accepted=[
        FIRST_BREAK.replace("breaks[0] if", "torch.tensor(breaks[0], dtype=torch.int32) if"),
        FIRST_BREAK.replace("breaks[0] if", "__import__('numpy').int64(breaks[0]) if"),
    ],
    setup=SETUP,
)
def first_break(first_break: Callable[..., Any]) -> Outcome:
    """Ask about a rollout as it was recorded, and about rollouts changed at known steps."""
    recorded = several_episodes()
    for steps, component in (([10], None), ([], None), ([3, 60], 2)):
        td = recorded.clone()
        for t in steps:
            td["next", "observation"][t, slice(None) if component is None else component] += 0.01
        got = _index(ask(first_break, td))
        if got != (steps[0] if steps else None):
            _explain_break(got, steps, component, td)
    return right('Within an episode the `"next"` of step t is the root of step t + 1. Across a reset it need not be.')


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


def _index(got: Any) -> int | None:
    """Read an answer as an index; a tensor that holds one integer is accepted."""
    if isinstance(got, torch.Tensor) and got.numel() == 1 and got.dtype in _INTEGERS:
        return int(got)
    if got is None or (isinstance(got, int) and not isinstance(got, bool)):
        return got
    fail(f"It gave a `{type(got).__name__}`. Return one integer, or `None`.")


def _explain_break(got: int | None, steps: list[int], component: int | None, td: TensorDictBase) -> None:
    """Say what is wrong with an index: the rollout was changed at ``steps``, and ``got`` is not the first of them."""
    there = steps[0] if steps else got if got is not None and 0 <= got < len(td) else 0
    picture = TEDExplorer(td, t=there)
    said = f"It gave {got} for a rollout {f'with changes at {some(steps)}' if steps else 'without changes'}. "
    if got is None:
        fail(
            f"{said}What changed there is {'the observation' if component is None else 'one of the four numbers'}.",
            picture,
        )
    if got in where(td["next", "terminated"]):
        fail(f"{said}An episode ends there, and the row below is a new start.", picture)
    if got in where(td["next", "truncated"]):
        fail(f"{said}That episode is over as well: it was truncated, and the row below is a new start.", picture)
    if got == 0 and steps:
        fail(f'{said}Is each `"next"` compared with the root of the same row? These differ: time went on.', picture)
    if got in steps:
        fail(f"{said}It is a break, but not the first.", picture)
    if steps and got == steps[0] + 1:
        fail(f'{said}That is one step too late: wanted is the step with the `"next"` that does not fit.', picture)
    fail(f"{said}Nothing is broken there{'' if steps else ', nor anywhere else'}.", picture)
