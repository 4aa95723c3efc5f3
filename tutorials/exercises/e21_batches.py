"""Exercises of lesson 21 on copies in a batch: one episode per copy, and resets of some copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import CartPoleEnv, EnvBase, step_mdp
from rlnb.envs.custom.cart_pole import move

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import some, where
from .verdict import Outcome

LIMIT = 16
_NEAR = 0.06  # m; a reset puts a cart nearer to the centre than that

FIRST_RETURNS = """
    def first_returns(td):
        done = td["next", "done"].int()
        ended_before = done.cumsum(1) - done
        return (td["next", "reward"] * (ended_before == 0)).sum(1).squeeze(-1)
"""


@exercise(
    title="One episode per copy",
    prompt="""
        Write `first_returns(td)`: the return of the *first* episode of each copy. `td` is a rollout of shape `[B, T]`
        in which each copy has been done at least once, as after `break_when_all_done=True`. Rewards and flags have the
        shape `[B, T, 1]`; the result has the shape `[B]`. The check uses its own rewards, so that no two sums are
        alike.
    """,
    stub="""
        def first_returns(td):
            # td["next", "done"] has the shape [B, T, 1], and time is dimension 1
            ...
    """,
    hints=[
        "A step counts if no earlier step in its row ended an episode. The step that ends the episode counts too.",
        '`done.cumsum(1)`, with `done = td["next", "done"].int()`, is the number of ends up to and including a '
        "step. How many came before it?",
        "With `before = done.cumsum(1) - done`, a reward counts where `before == 0`. Multiply, sum over dimension 1, "
        "and `squeeze` the last dimension.",
    ],
    solution=FIRST_RETURNS,
    wrong=[
        instead(FIRST_RETURNS, of=" * (ended_before == 0)", put="", says="the sums of the whole rows"),
        instead(FIRST_RETURNS, of="done.cumsum(1) - done", put="done.cumsum(1)", says="stops one step too early"),
        instead(FIRST_RETURNS, of="(ended_before == 0)", put="(ended_before <= 1)", says="two episodes of a copy"),
        instead(FIRST_RETURNS, of='"done"', put='"terminated"', says="A truncated episode"),
        instead(FIRST_RETURNS, of='td["next", "reward"] * (ended', put="1.0 * (ended", says="These are lengths"),
        instead(FIRST_RETURNS, of=".squeeze(-1)", put="", says="got [6, 1]"),
        instead(FIRST_RETURNS, of="cumsum(1)", put="cumsum(0)", says="in the copies above it"),
        instead(FIRST_RETURNS, of=".sum(1).squeeze(-1)", put=".sum(0).squeeze(-1)", says="Which dimension is time?"),
        instead(FIRST_RETURNS, of=".sum(1).squeeze(-1)", put=".sum(1).mean()", says="got []"),
        instead(FIRST_RETURNS, of=".squeeze(-1)", put=".squeeze(-1).tolist()", says="got a `list`"),
    ],
    setup="import torch",
)
def first_returns(first_returns: Callable[..., Any]) -> Outcome:
    """Compare with the sums up to the first end of each row, and with those of typical mistakes."""
    env = CartPoleEnv(batch_size=[6], max_steps=LIMIT, categorical_action_encoding=True)
    env.set_seed(0)
    td = env.rollout(3 * LIMIT, break_when_any_done=False)
    td["next", "reward"] = torch.arange(1.0, td.numel() + 1).reshape(*td.batch_size, 1)
    got = ask(first_returns, td)
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    if got.shape == (td.shape[1],):
        fail(
            f"Expected one number for each copy, got one for each of the {td.shape[1]} steps. Which dimension is time?"
        )
    require(got.shape == (6,), f"Expected shape [6] (one number for each copy), got {list(got.shape)}.")
    ends = td["next", "done"].int()
    if not torch.allclose(got.float(), _summed(td, ends.cumsum(1) - ends == 0)):
        _explain_returns(got.float(), td)
    return _estimates(first_returns)


def _summed(td: TensorDictBase, counts: torch.Tensor, rewards: torch.Tensor | None = None) -> torch.Tensor:
    """Sum the rewards of the steps that count."""
    rewards = td["next", "reward"] if rewards is None else rewards
    total: torch.Tensor = (rewards * counts).sum(1).squeeze(-1)
    return total


def _explain_returns(got: torch.Tensor, td: TensorDictBase) -> None:
    """Name the mistake that these sums come from, if it is a known one, and show the rollout."""
    done, over = td["next", "done"].int(), td["next", "terminated"].int()
    before = done.cumsum(1) - done
    known = {
        "These are the sums of the whole rows, including later episodes.": _summed(td, torch.ones_like(done)),
        "The sum stops one step too early: the step that ends an episode belongs to it.": _summed(
            td, done.cumsum(1) == 0
        ),
        "The sum includes two episodes of a copy.": _summed(td, before <= 1),
        "A truncated episode has ended as well.": _summed(td, over.cumsum(1) - over == 0),
        "These are lengths, but a reward is not always 1.": _summed(td, before == 0, (before == 0).float()),
        "It counts the ends in the copies above it, not the earlier ones in time.": _summed(
            td, done.cumsum(0) - done == 0
        ),
    }  # fmt: skip
    wanted = _summed(td, before == 0)
    row = where(~torch.isclose(got, wanted))[0]
    said = f"For copy {row}, with ends at {some(where(td['next', 'done'][row]))}, it gave {got[row].item():g}. "
    why = [what for what, sums in known.items() if torch.allclose(got, sums)]
    player = RolloutPlayer(td[row], CartPoleEnv(), strips=["action"], t=where(td["next", "done"][row])[0])
    fail(said + (why[0] if why else "The player shows that copy."), player)


def _estimates(first_returns: Callable[..., Any]) -> Outcome:
    """Compare three estimates of one mean return."""
    env = CartPoleEnv(batch_size=[1000], categorical_action_encoding=True)
    env.set_seed(0)
    td = env.rollout(500, break_when_all_done=True)
    done, reward = td["next", "done"], td["next", "reward"]
    finished = done.flip(1).cumsum(1).flip(1) > 0  # an end is still to come
    first = first_returns(td).mean().item()
    every = (reward * finished).sum().item() / done.sum().item()
    crude = reward.sum().item() / done.sum().item()
    said = (
        f"With it, the mean return of random actions over 1000 copies is {first:.1f}. All finished episodes would give "
        f"{every:.1f}: a copy that falls early starts again, so short episodes count more. All rewards divided by "
        f"the number of ends would give {crude:.1f}, which includes rewards of unfinished episodes."
    )
    return right(said)


RESTART = """
    def restart(env, td_, limit):
        td_["_reset"] = td_["observation"][:, :1].abs() > limit
        return env.reset(td_)
"""


@exercise(
    title="Reset the runaways",
    prompt="""
        Write `restart(env, td_, limit)`. `env` holds `B` cart poles, and `td_` is the root of their next step. Reset
        the copies whose cart is more than `limit` metres from the centre, on either side, and return the root. Leave
        the others unchanged. The position of the cart is the first of the four numbers of the observation.
    """,
    stub="""
        def restart(env, td_, limit):
            # td_["observation"] has the shape [B, 4]; td_["done"] has the shape [B, 1]
            ...
    """,
    hints=[
        "You need a mask and a call of `env.reset`.",
        'A slice keeps the dimension: `td_["observation"][:, :1]` has the shape `[B, 1]`. `.abs()` takes care of both '
        "sides.",
        'Write the mask to `td_["_reset"]`, and return `env.reset(td_)`.',
    ],
    solution=RESTART,
    wrong=[
        instead(RESTART, of="[:, :1]", put="[:, 0]", says="must have the shape"),
        instead(RESTART, of=".abs()", put="", says="on the left"),
        instead(RESTART, of="> limit", put="< limit", says="the other way round"),
        instead(RESTART, of="[:, :1]", put="[:, 2:3]", says="was not reset"),
        instead(RESTART, of="env.reset(td_)", put="env.reset()", says="All copies were reset"),
        instead(RESTART, of="env.reset(td_)", put="td_", says="`_reset` is still in the result"),
        instead(RESTART, of="return env.reset(td_)", put="env.reset(td_)", says="Is there a `return`?"),
        instead(RESTART, of="> limit", put="> 0.1", says="whatever `limit` is"),
        WrongAnswer(
            """
            def restart(env, td_, limit):
                far = td_["observation"][:, :1].abs() > limit
                td_["observation"] = torch.where(far, torch.zeros(4), td_["observation"])
                return td_
            """,
            says="the environment does not know",
        ),
        WrongAnswer(
            """
            def restart(env, td_, limit):
                far = td_["observation"][:, :1].abs() > limit
                fresh = env.reset()["observation"]
                td_["observation"] = torch.where(far, fresh, td_["observation"])
                return td_
            """,
            says="The environment reset more copies than the data say",
        ),
        instead(RESTART, of='"_reset"', put='"reset"', says='It writes a mask named "reset"'),
    ],
    accepted=[
        """
        def restart(env, td_, limit):
            x = td_["observation"][:, 0]
            return env.reset(td_.clone().set("_reset", ((x > limit) | (x < -limit)).unsqueeze(-1)))
        """,
    ],
    setup="import torch",
)
def restart(restart: Callable[..., Any]) -> Outcome:
    """Check two limits: the root that comes back, and whether the env agrees with it."""
    for limit in (0.3, 0.1):
        env, td_ = _under_way()
        before = td_["observation"].clone()
        got = ask(restart, env, td_, limit, may_change=True)
        require(got is not None, "It gave `None`. Is there a `return`?")
        require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
        what = "`_reset` is still in the result. It is a request: which call reads and removes it?"
        require("_reset" not in got.keys(), what)  # noqa: SIM118 - `in` asks a TensorDict for values
        if "reset" in got.keys() or "reset" in td_.keys():  # noqa: SIM118 - as above
            fail('It writes a mask named "reset", but `env.reset` looks for another name. Which one?')
        _check_reset(before, got["observation"], limit)
        _check_env(env, got)
    return _play(restart)


def _under_way() -> tuple[EnvBase, TensorDictBase]:
    """Make eight cart poles, all after some steps: carts on either side, poles that lean."""
    env = CartPoleEnv(batch_size=[8], categorical_action_encoding=True)
    state = torch.zeros(8, 4)
    state[:, 0] = torch.tensor([0.5, -0.2, -0.6, 0.02, 0.15, -0.05, 0.35, -0.12])
    state[:, 2] = torch.tensor([0.01, 0.12, -0.02, -0.15, 0.02, 0.14, 0.0, 0.03])
    td = env.reset(state=state)
    return env, step_mdp(env.step(env.rand_action(td)))


def _check_reset(before: torch.Tensor, after: torch.Tensor, limit: float) -> None:
    """Require that the rows beyond the limit changed, and no other."""
    require(
        after.shape == before.shape, f"Expected an observation of shape {list(before.shape)}, got {list(after.shape)}."
    )
    x = before[:, 0]
    changed, far = (before != after).any(-1), x.abs() > limit
    if bool((changed == far).all()):
        return
    said = f"With `limit={limit:g}`, and carts at {[round(value, 2) for value in x.tolist()]}: "
    if bool((changed == ~far).all()):
        fail(f"{said}it resets copies {some(where(changed))}. It is the other way round.")
    if bool(changed.all()):
        fail(f"{said}All copies were reset.")
    if torch.equal(changed, x > limit):
        fail(f"{said}copy {where(far & ~changed)[0]} is far out on the left, but was not reset.")
    if torch.equal(changed, x.abs() > 0.1):
        fail(f"{said}it resets copies {some(where(changed))}, whatever `limit` is.")
    missed, extra = where(far & ~changed), where(changed & ~far)
    if missed:
        fail(f"{said}copy {missed[0]} was not reset.")
    fail(f"{said}copy {extra[0]} was reset, and its cart is near the centre.")


def _check_env(env: EnvBase, root: TensorDictBase) -> None:
    """Require that the env goes on from where the root says it is: one more step tells."""
    action = torch.zeros(8, dtype=torch.int64)
    arrived = env.step(TensorDict({"action": action}, [8]))["next", "observation"]
    off = where((arrived - move(root["observation"], action)).abs().amax(-1) > 1e-3)
    if not off:
        return
    x = root["observation"][:, 0].abs()
    if any(x[copy] > _NEAR for copy in off):
        fail("The environment reset more copies than the data say: its next step does not go on from the others.")
    fail(
        f"The data say that copy {off[0]} is back at the centre, and the environment does not know: its next step goes "
        "on from where it was. The state is inside."
    )


def _play(restart: Callable[..., Any]) -> Outcome:
    """Let poles be held up by a policy that runs away, on a short leash."""
    env = CartPoleEnv(batch_size=[4], categorical_action_encoding=True)
    env.set_seed(0)
    td_, rows = env.reset(), []
    for _ in range(100):
        td_["action"] = (td_["observation"][:, 2] > 0).long()
        td, td_ = env.step_and_maybe_reset(td_)
        rows.append(td)
        td_ = restart(env, td_, 0.2)
    player = RolloutPlayer(TensorDict.stack(rows, 1), env, strips=[("observation", 0), ("observation", 2)])
    said = "Right in the data and in the environment. Below it runs after each step, with a limit of 0.2 metres."
    return right(said, player)
