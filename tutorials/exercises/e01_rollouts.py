"""Exercises of lesson 1 on the structure of a rollout: write its loop, and find an inconsistent step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TEDExplorer
from tensordict import TensorDictBase

from rlnb.envs import GymEnv

from .asking import ask, fail, kind_of, require, right
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
    title="Write your own rollout",
    prompt="""
        Write `collect(env, max_steps)`. It takes random steps, as you did by hand above. It starts with a reset and
        stops at the end of the episode or after `max_steps` steps. It returns the steps as one TensorDict with a time
        dimension: `torch.stack` makes one from a list of TensorDicts. With the same seed, the result equals
        `env.rollout(max_steps)`.
    """,
    stub="""
        def collect(env, max_steps):
            steps = []
            ...
            return torch.stack(steps)
    """,
    hints=[
        "In each iteration: write a random action, take the step, append the TensorDict to the list. What makes the "
        "root of the next iteration?",
        '`td = step_mdp(td)` does. `td["next", "done"]` tells whether the step was the last of the episode.',
        'The loop is `for _ in range(max_steps):`, and it ends early with `if td["next", "done"]: break`. Put that '
        "after the line that appends the step, so that the last step is kept too.",
    ],
    solution=COLLECT,
    wrong=[
        instead(COLLECT, of='["next", "done"]', put='["done"]', says="after the end of the episode"),
        instead(COLLECT, of="td = step_mdp(td)", put="pass", says="the same TensorDict"),
        instead(COLLECT, of="rand_action(td)", put="rand_action(env.reset())", says="does not continue where"),
        instead(COLLECT, of="append(td)", put='append(td.exclude("next"))', says='`"next"` is missing'),
        instead(COLLECT, of="append(td)", put="append(step_mdp(td))", says='`"action"` is missing'),
        instead(COLLECT, of="td = step_mdp(td)", put='td = td["next"]', says="have different keys"),
        instead(COLLECT, of="range(max_steps)", put="range(max_steps + 1)", says="one too many"),
        instead(COLLECT, of="range(max_steps)", put="range(10_000)", says="Does the loop use `max_steps`"),
        instead(COLLECT, of="torch.stack(steps)", put="steps", says="got a `list`"),
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
            got = _collected(collect, env, max_steps)
        require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
        _check_rows(got)
        _check_length(len(got), len(wanted), max_steps)
        same = set(got.keys(True, True)) == set(wanted.keys(True, True)) and bool((got == wanted).all())
        require(
            same,
            f"With `max_steps={max_steps}` and the same seed, `env.rollout` gives other numbers. Do you call "
            "`env.reset()` exactly once, and `env.rand_action` once per step?",
            TEDExplorer(got, other=wanted),
        )
    return right("It equals the result of `env.rollout`, key by key and number by number.")


def _collected(collect: Callable[..., Any], env: GymEnv, max_steps: int) -> Any:
    """Call the loop; where its steps cannot be stacked, say so in other words than tensordict does."""
    try:
        return ask(collect, env, max_steps)
    except RuntimeError as error:
        if "exclusive" not in str(error):
            raise
        fail(
            "The steps in the list have different keys, so they cannot be stacked. Print `sorted(step.keys())` of the "
            "first two: where do they differ, and which line made that root?"
        )


def _no_rollout(*args: Any, **kwargs: Any) -> None:
    fail("It calls `env.rollout`. Write the loop by hand this time: `reset`, `rand_action`, `step`, `step_mdp`.")


def _check_rows(got: TensorDictBase) -> None:
    """Each row must be a whole step that continues where the previous row ended."""
    require(got.ndim == 1, f"Expected one batch dimension (time), got the batch size {list(got.batch_size)}.")
    for key in ("action", "next"):
        what = f'`"{key}"` is missing at the root. Append whole steps: root entries, action and `"next"`.'
        require(key in got.keys(), what)  # noqa: SIM118 - `in` asks a TensorDict for values
    root, following = got["observation"], got["next", "observation"]
    if len(got) > 1 and bool((root == root[0]).all()):
        fail("All rows have the same root: the loop uses the same TensorDict in every iteration.", TEDExplorer(got))
    broken = where((root[1:] != following[:-1]).any(-1))
    if broken:
        t = broken[0]
        said = f'Row {t + 1} does not continue where row {t} ended: its root is not the `"next"` of row {t}.'
        fail(said, TEDExplorer(got, t=t))


def _check_length(rows: int, wanted: int, max_steps: int) -> None:
    if rows == wanted:
        return
    said = f"With `max_steps={max_steps}` it took {rows} step{'s' * (rows != 1)}"
    if rows == 1:
        fail(f"{said}, and returned. Is the `return` inside the loop?")
    if wanted == max_steps:
        fail(f"{said}{', one too many' if rows == wanted + 1 else '. Does the loop use `max_steps`?'}")
    if rows > wanted:
        fail(f"{said}. It continued after the end of the episode, at step {wanted - 1}.")
    if rows == wanted - 1:
        fail(f"{said}, without the last step of the episode.")
    fail(f"{said}, but `env.rollout` takes {wanted}.")


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
        Some numbers in a rollout were changed. Write `first_break(td)`: return the first step *t* whose `"next"`
        observation differs from the root observation of step *t* + 1 although the episode continues, or `None` if there
        is no such step.
    """,
    stub="""
        def first_break(td):
            # td["next", "observation"][:-1] belongs to the steps 0 to T - 2
            # td["observation"][1:] belongs to the steps 1 to T - 1
            ...
    """,
    hints=[
        "The two tensors in the stub's comments have the same length: row t of one must equal row t of the other. In "
        "which rows do they differ in any of the four numbers?",
        '`differs = (td["next", "observation"][:-1] != td["observation"][1:]).any(-1)`. Where an episode ends, they '
        "may "
        "differ, because a reset comes in between. Which entry marks the ends?",
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
        instead(FIRST_BREAK, of="breaks[0] if breaks else None", put="bool(breaks)", says="got a `bool`"),
    ],
    accepted=[
        FIRST_BREAK.replace("breaks[0] if", "torch.tensor(breaks[0], dtype=torch.int32) if"),
        FIRST_BREAK.replace("breaks[0] if", "__import__('numpy').int64(breaks[0]) if"),
    ],
    setup=SETUP,
)
def first_break(first_break: Callable[..., Any]) -> Outcome:
    """Check a rollout as it was recorded, and rollouts changed at known steps."""
    recorded = several_episodes()
    for steps, component in (([10], None), ([], None), ([3, 60], 2)):
        td = recorded.clone()
        for t in steps:
            td["next", "observation"][t, slice(None) if component is None else component] += 0.01
        got = _index(ask(first_break, td))
        if got != (steps[0] if steps else None):
            _explain_break(got, steps, component, td)
    return right('Within an episode the `"next"` of step t is the root of step t + 1. Across a reset it may differ.')


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


def _index(got: Any) -> int | None:
    """Read an answer as an index; a tensor that holds one integer is accepted."""
    if isinstance(got, torch.Tensor) and got.numel() == 1 and got.dtype in _INTEGERS:
        return int(got)
    if got is None or (isinstance(got, int) and not isinstance(got, bool)):
        return got
    fail(f"Expected one integer or `None`, got {kind_of(got)}.")


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
        fail(f"{said}An episode ends there, and the next row starts a new one.", picture)
    if got in where(td["next", "truncated"]):
        fail(f"{said}That episode has ended as well: it was truncated, and the next row starts a new one.", picture)
    if got == 0 and steps:
        fail(f'{said}Do you compare each `"next"` with the root of the same row? Those always differ.', picture)
    if got in steps:
        fail(f"{said}It is a break, but not the first.", picture)
    if steps and got == steps[0] + 1:
        fail(f'{said}That is one step too late: return the step whose `"next"` does not match.', picture)
    fail(f"{said}Nothing is broken there{'' if steps else ', nor anywhere else'}.", picture)
