"""Exercise of lesson 23 on cuts: join two rollouts so that the result is well-formed TED."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import TEDExplorer
from tensordict import TensorDictBase

from rlnb.data import check_ted

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .hall import walk
from .mutants import instead
from .verdict import Outcome

JOIN = """
    def join(one, two):
        one = one.clone()
        if not one["next", "done"][-1]:
            one["next", "truncated"][-1] = True
            one["next", "done"][-1] = True
        return torch.cat([one, two])
"""


@exercise(
    title="Join two rollouts",
    prompt="""
        Write `join(one, two)`: both rollouts in one TensorDict, `two` after `one`. The two are unrelated, and `one` may
        stop in the middle of an episode. The result must be well-formed and true to the data: an episode that ended is
        unchanged, and one that only stopped is marked as cut. `one` and `two` stay as they
        are.
    """,
    stub="""
        def join(one, two):
            # one["next", "done"][-1] tells whether the last episode of one has ended
            ...
    """,
    hints=[
        "Only one row needs a change, and only if its episode has not ended. Which row, and which of the three end "
        "signals?",
        'The last row of `one`. The rule "union" links two of the signals: if you change one, change both.',
        'Work on `one.clone()`. If `one["next", "done"][-1]` is False, set `"truncated"` and `"done"` of that row. '
        "Then `torch.cat([one, two])`.",
    ],
    solution=JOIN,
    wrong=[
        WrongAnswer("def join(one, two): return torch.cat([one, two])", says="breaks the rule `adjacency` at step 8"),
        instead(JOIN, of='    one["next", "done"][-1] = True\n', put="", says="breaks the rule `union` at step 8"),
        instead(JOIN, of='        one["next", "truncated"][-1] = True\n', put="", says="is True without a reason"),
        instead(JOIN, of='one["next", "truncated"]', put='one["next", "terminated"]', says="no future"),
        instead(
            JOIN,
            of='if not one["next", "done"][-1]:\n        one["next", "truncated"][-1] = True\n        ',
            put='one["next", "truncated"][-1] = True\n    ',
            says="had already ended",
        ),
        instead(JOIN, of="one = one.clone()\n    ", put="", says="changed its input"),
        instead(
            JOIN,
            of='one["next", "done"][-1] = True',
            put='one["done"][-1] = one["next", "done"][-1] = True',
            says="breaks the rule `root",
        ),
        instead(JOIN, of="torch.cat", put="torch.stack", says="got [2, 9]"),
        instead(JOIN, of="[one, two]", put="[two, one]", says="where `one` should be"),
        WrongAnswer(
            """
            def join(one, two):
                both = torch.cat([one, two])
                both["next", "truncated"][-1] = True
                both["next", "done"][-1] = True
                return both
            """,
            says="The last row of `two`",
        ),
        WrongAnswer(
            """
            def join(one, two):
                ends = one["next", "done"].flatten().nonzero().flatten()
                return torch.cat([one[: ends[-1] + 1], two])
            """,
            says="got [14]",
        ),
        WrongAnswer(
            """
            def join(one, two):
                both = torch.cat([one, two])
                both["next", "observation"][len(one) - 1] = two["observation"][0]
                return both
            """,
            says="`('next', 'observation')` of step 8 is not what was recorded",
        ),
        instead(
            JOIN,
            of="return torch",
            put='one["next", "reward"][-1] = 5.0\n    return torch',
            says="`('next', 'reward')` of step 8 is not what was recorded",
        ),
    ],
    accepted=[
        """
        def join(one, two):
            both = torch.cat([one, two])
            seam = len(one) - 1
            if not both["next", "done"][seam]:
                both["next", "truncated"][seam] = both["next", "done"][seam] = True
            return both
        """,
    ],
    setup="import torch",
)
def join(join: Callable[..., Any]) -> Outcome:
    """Join rollouts that stop inside an episode, at a goal, and at a time limit."""
    two = walk(9, start=3, seed=1)
    # The first stops within its second episode, the second on the goal, the third at the time limit.
    for one in (walk(9, start=16), walk(3, start=28), walk(5, start=8)):
        got = ask(join, one, two)
        require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
        size, wanted = list(got.batch_size), [len(one) + len(two)]
        require(size == wanted, f"Expected a TensorDict of batch size {wanted}, with all rows, got {size}.")
        _compare(got, one, two)
    return right("A cut is marked as truncated, and therefore done. Episodes that had ended are unchanged.")


_SIGNALS = [("next", name) for name in ("done", "terminated", "truncated")]


def _compare(got: TensorDictBase, one: TensorDictBase, two: TensorDictBase) -> None:
    """Name what is untrue or broken in the joined rollouts."""
    seam = len(one) - 1

    def picture() -> TEDExplorer:
        return TEDExplorer(got, t=seam)

    for key in ("observation", "action"):
        what = f"`{key}` holds other data where `one` should be, perhaps that of `two`."
        require(torch.equal(got[key], torch.cat([one[key], two[key]])), what, picture)
    after = "terminated", "truncated", "done"
    ended = bool(one["next", "done"][-1])
    for key in after:
        if not torch.equal(got["next", key][seam + 1 :], two["next", key]):
            fail(
                f'`("next", "{key}")` of the last row has changed. The last row of `two` should not: where do the '
                "two meet?",
                picture(),
            )
        if ended and not torch.equal(got["next", key][: seam + 1], one["next", key]):
            fail(f"The last episode of `one` had already ended, but its `{key}` was changed.", picture())
    if not torch.equal(got["next", "terminated"][: seam + 1], one["next", "terminated"]):
        fail("It marks the episode as terminated at the seam, so that it has no future. Was it terminated?", picture())
    for key in one.keys(True, True):
        kept = torch.cat([one[key], two[key]])
        if key not in (*_SIGNALS, "done", "terminated", "truncated") and not torch.equal(got[key], kept):
            t = int((got[key] != kept).reshape(len(kept), -1).any(-1).nonzero()[0])
            name = f"`{key!r}`" if isinstance(key, tuple) else f"`{key}`"
            fail(
                f"{name} of step {t} is not what was recorded. Leave the data unchanged.",
                TEDExplorer(got, t=t),
            )
    report = check_ted(got)
    if report.ok:
        return
    found = report.findings[0]
    at = found.index[0] if found.index else seam
    flags = "done" in found.entry and bool(got["next", "done"][at]) and found.rule == "union"
    said = f"It breaks the rule `{found.rule}` at step {at}: {found.found}."
    fail(f"`done` is True without a reason. {said}" if flags else said, TEDExplorer(got, t=at))
