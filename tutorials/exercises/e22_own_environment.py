"""Exercises of lesson 22 on writing an environment: its step, and its specs."""

from __future__ import annotations

import re
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer, SpecExplorer
from tensordict import TensorDict, TensorDictBase

from rlnb.data import TensorSpec
from rlnb.data.ted.keys import NestedKey
from rlnb.envs import EnvBase, check_env_specs

from .asking import ask, fail, first_change, kind_of, require, right
from .exercise import exercise
from .mutants import instead
from .verdict import Outcome

SETUP = """
import torch
from tensordict import TensorDict
from rlnb.data import Bounded, Categorical, Composite
from rlnb.envs import EnvBase, check_env_specs
"""

_NO_STEP = """\
# tensordict["place"] and tensordict["action"] have the shape [1] and the dtype int64
        ..."""
_RESULT = '{"place": place, "reward": torch.where(goal, 10.0, -1.0), "terminated": goal}'
_STEP = f"""\
place = (tensordict["place"] + 2 * tensordict["action"] - 1).clamp(min=0)
        goal = place == 6
        return TensorDict({_RESULT})"""

WALK_STUB = f'''\
class Walk(EnvBase):
    """A walk over the places 0 to 6: 0 goes left, 1 right. Left of 0 is a wall, 6 is the goal."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(place=Categorical(7, shape=(1,)))
        self.action_spec = Categorical(2, shape=(1,))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({{"place": torch.tensor([3])}})

    def _step(self, tensordict):
        {_NO_STEP}

    def _set_seed(self, seed):
        pass  # it draws no random numbers
'''
WALK = WALK_STUB.replace(_NO_STEP, _STEP)
_GOAL = 6


@exercise(
    title="A step of a walk",
    prompt="""
        Write `_step` of `Walk`. Action 0 moves one place to the left, action 1 one to the right; walking against the
        wall stays at place 0. Reaching the goal, place 6, ends the episode with a reward of 10. Any other step has a
        reward of -1. The walk is stateless: everything it needs is in `tensordict`, which must not change.
    """,
    stub=WALK_STUB,
    hints=[
        "A step returns three entries, all at the root of a new TensorDict: `place`, `reward` and `terminated`.",
        "`2 * action - 1` is -1 for the left and 1 for the right. `.clamp(min=0)` is the wall.",
        "With `goal = place == 6`, where `place` is the one after the step, `terminated` is `goal`, and the reward is "
        "`torch.where(goal, 10.0, -1.0)`. Both keep the shape `[1]`.",
    ],
    solution=WALK,
    wrong=[
        instead(
            WALK, of='"terminated": goal', put='"terminated": goal.squeeze(-1)', says="Expected `terminated` of shape"
        ),
        instead(WALK, of="return TensorDict(", put="return tensordict.update(", says="that it was given"),
        instead(
            WALK,
            of='(tensordict["place"] + 2 * tensordict["action"] - 1)',
            put='tensordict["place"].add_(2 * tensordict["action"] - 1)',
            says='changed its input (`["place"]`)',
        ),
        instead(WALK, of="torch.where(goal", put='torch.where(tensordict["place"] == 5', says="the place before"),
        instead(WALK, of="goal = place", put='goal = tensordict["place"]', says="does not end the episode"),
        instead(WALK, of="torch.where(goal, 10.0, -1.0)", put="torch.where(goal, -1.0, 10.0)", says="brings 10"),
        instead(WALK, of="10.0, -1.0", put="10.0, 0.0", says="brings 0"),
        instead(WALK, of="torch.where(goal, 10.0, -1.0)", put="10.0 * goal - 1.0", says="brings 9"),
        instead(WALK, of="10.0, -1.0", put="10, -1", says="`reward` has the dtype"),
        instead(WALK, of=".clamp(min=0)", put="", says="through the wall"),
        instead(WALK, of="2 * tensordict", put="1 - 2 * tensordict", says="arrives at"),
        instead(WALK, of='"terminated": goal', put='"truncated": goal', says="no `terminated`"),
        instead(WALK, of='"terminated": goal', put='"terminated": goal.float()', says="`terminated` has the dtype"),
        instead(WALK, of='"terminated": goal', put='"terminated": place >= 5', says="before the goal"),
        instead(WALK, of=_RESULT, put=f'{{"next": {_RESULT}}}', says="is put under `next` later"),
        instead(WALK, of="return TensorDict(", put="return dict(", says="got a `dict`"),
    ],
    setup=SETUP,
)
def walk(Walk: Any) -> Outcome:
    """Try each action at each place, then run the library's check."""
    env = _made(Walk)
    for place in (3, 5, 4, 2, 1, 0):
        for action in (1, 0):
            _check_step(_stepped(env, place, action), place, action)
    env = _made(Walk)
    check_env_specs(env, seed=0)
    env.set_seed(0)
    td = env.rollout(40)
    player = RolloutPlayer(td, strips=["place", "action", ("next", "reward")])
    return right(f"`check_env_specs(Walk())` finds nothing either. Below is a random walk of {len(td)} steps.", player)


def _made(cls: Any) -> EnvBase:
    """Make the learner's env."""
    require(isinstance(cls, type) and issubclass(cls, EnvBase), "Expected a subclass of `EnvBase`.")
    env: EnvBase = cls()
    return env


def _stepped(env: EnvBase, place: int, action: int) -> TensorDictBase:
    """Take one step past the library, and require a new TensorDict with the three entries in their form."""
    given = TensorDict({"place": torch.tensor([place]), "action": torch.tensor([action])})
    before = given.clone()
    got = ask(env._step, given, may_change=True)
    require(got is not given, "`_step` returned the TensorDict that it was given, which is the root. Return a new one.")
    changed = first_change(before, given, "")
    what = f"`_step` changed its input (`{changed}`), so the root would show the state after the step."
    require(changed is None, what)
    require(isinstance(got, TensorDictBase), f"Expected a TensorDict, got {kind_of(got)}.")
    require("next" not in got, 'The result of `_step` is put under `next` later. It must not hold a "next" itself.')
    for key, dtype in {"place": torch.int64, "reward": torch.float32, "terminated": torch.bool}.items():
        require(key in got, f"The result has no `{key}`, only {sorted(map(str, got.keys()))}.")
        shape = list(got[key].shape)
        require(shape == [1], f"Expected `{key}` of shape [1], as its spec says, got {shape}.")
        what = f"`{key}` has the dtype `{got[key].dtype}`, but its spec says `{dtype}`."
        require(got[key].dtype == dtype, what)
    return got


def _check_step(got: TensorDictBase, place: int, action: int) -> None:
    """Require the place, the end and the reward that a step leads to."""
    after = max(place + 2 * action - 1, 0)
    said = f"From place {place}, action {action} "
    arrived, reward, ended = (got[key].item() for key in ("place", "reward", "terminated"))
    require(arrived >= 0, f"{said}goes through the wall, to place {arrived}.")
    require(arrived == after, f"{said}arrives at place {arrived}. Which way is that?")
    goal = after == _GOAL
    require(ended or not goal, f"{said}arrives at the goal, but that does not end the episode.")
    require(goal or not ended, f"{said}ends the episode before the goal: it arrives at place {arrived}.")
    what = f"{said}arrives at place {arrived}, and it brings {reward:g}."
    if not goal and reward == 10:
        what += " Do you use the place before the step, or the one after it?"
    require(reward == (10.0 if goal else -1.0), what)


_NO_SPECS = """\
self.observation_spec = ...
        self.action_spec = ...
        self.reward_spec = ..."""
_SPECS = """\
self.observation_spec = Composite(
            ball=Composite(place=Bounded(-1, 1, shape=(2,)), speed=Unbounded((2,))),
            walls=Binary(2),
        )
        self.action_spec = Bounded(-0.1, 0.1, shape=(2,))
        self.reward_spec = Bounded(-1, 0, shape=(1,))"""

BALL_STUB = f'''\
class Ball(EnvBase):
    """A ball on a table. An action is a kick: two numbers from -0.1 to 0.1."""

    def __init__(self):
        super().__init__()
        {_NO_SPECS}

    def _reset(self, tensordict=None, **kwargs):
        return self.look(torch.zeros(2), torch.zeros(2))

    def _step(self, tensordict):
        speed = tensordict["ball", "speed"] + tensordict["action"]  # may be any number
        # The edges of the table are at -1 and 1.
        place = (tensordict["ball", "place"] + speed).clamp(-1, 1)
        farther = place.abs().amax(-1, keepdim=True)
        never = torch.zeros(1, dtype=torch.bool)
        return self.look(place, speed).update({{"reward": -farther, "terminated": never}})

    def look(self, place, speed):
        # One bit for each direction: does it touch a wall there?
        walls = (place.abs() == 1).to(torch.int8)
        return TensorDict({{"ball": {{"place": place, "speed": speed}}, "walls": walls}})

    def _set_seed(self, seed):
        pass  # it draws no random numbers
'''
BALL = "from rlnb.data import Binary, Unbounded\n\n\n" + BALL_STUB.replace(_NO_SPECS, _SPECS)

_KICKS = [(0.1, -0.1)] * 6 + [(-0.1, 0.1)]

# Of each entry: numbers that it may be, numbers that it may not be, and what they are.
_LEGAL: dict[NestedKey, list[tuple[list[float], str]]] = {
    ("ball", "place"): [([-1.0, 1.0], "a corner of the table")],
    ("ball", "speed"): [([50.0, -50.0], "a fast ball")],
    "walls": [([0, 1], "one wall touched"), ([1, 1], "both walls touched")],
    "action": [([-0.1, 0.1], "as hard a kick as there is"), ([0.0, 0.0], "no kick")],
    "reward": [([-1.0], "what the edge brings"), ([0.0], "what the middle brings")],
}
_ILLEGAL: dict[NestedKey, list[tuple[list[float], str]]] = {
    ("ball", "place"): [([0.0, 2.0], "a place off the table"), ([-1.5, 0.0], "a place off the table")],
    "walls": [([0, 2], "a bit that is neither 0 nor 1")],
    "action": [([0.5, 0.0], "too hard a kick"), ([0.0, -0.5], "too hard a kick")],
    "reward": [([1.0], "more than the middle brings"), ([-2.0], "less than the edge brings")],
}


@exercise(
    title="The specs of a ball",
    prompt="""
        The methods of `Ball` are right; its specs are missing. Write all three in `__init__`, and change nothing else.
        Import what you need from `rlnb.data`. `check_env_specs(Ball())`, in a new cell, tells you what is missing. When
        it finds nothing, check the bounds: each spec should allow exactly the possible values.
    """,
    stub=BALL_STUB,
    hints=[
        "The observation is the result of `look`: two levels, so a `Composite` in a `Composite`.",
        "Of which dtype and shape is each entry, and how far can it go? `walls` are two bits. The larger of two "
        "distances, each from 0 to 1, is from 0 to 1 too, and the reward is minus that.",
        "`from rlnb.data import Binary, Unbounded`. Then `ball=Composite(place=..., speed=...)` and `walls=Binary(2)`; "
        "a `Bounded` each for the place, the action (shape `(2,)`) and the reward (shape `(1,)`), and an `Unbounded` "
        "for the speed.",
    ],
    solution=BALL,
    wrong=[
        instead(BALL, of="place=Bounded(-1, 1", put="place=Bounded(0, 1", says="a wrong domain of `('ball', 'place')`"),
        instead(BALL, of="place=Bounded(-1, 1, shape=(2,))", put="place=Unbounded((2,))", says="off the table"),
        instead(BALL, of="speed=Unbounded((2,))", put="speed=Bounded(-1, 1, shape=(2,))", says="a fast ball"),
        instead(BALL, of="speed=Unbounded((2,))", put="speed=Unbounded((1,))", says="shape of `('ball', 'speed')`"),
        instead(
            BALL,
            of="ball=Composite(place=Bounded(-1, 1, shape=(2,)), speed=Unbounded((2,)))",
            put="place=Bounded(-1, 1, shape=(2,)), speed=Unbounded((2,))",
            says="It has no spec of `('ball', 'place')`",
        ),
        instead(BALL, of="            walls=Binary(2),\n", put="", says="It has no spec of `walls`"),
        instead(BALL, of="walls=Binary(2)", put="walls=Categorical(2, shape=(2,))", says="a wrong dtype of `walls`"),
        instead(BALL, of="Binary(2)", put="Bounded(0, 5, shape=(2,), dtype=torch.int8)", says="neither 0 nor 1"),
        instead(BALL, of="Bounded(-0.1, 0.1, shape=(2,))", put="Bounded(-1, 1, shape=(2,))", says="too hard a kick"),
        instead(BALL, of="Bounded(-0.1, 0.1, shape=(2,))", put="Bounded(0, 0.1, shape=(2,))", says="refuses [-0.1"),
        instead(BALL, of="Bounded(-0.1, 0.1, shape=(2,))", put="Categorical(2)", says="An action is two numbers"),
        instead(BALL, of="Bounded(-1, 0, shape=(1,))", put="Bounded(0, 1, shape=(1,))", says="domain of `reward`"),
        instead(BALL, of="\n        self.reward_spec = Bounded(-1, 0, shape=(1,))", put="", says="the middle brings"),
        instead(BALL, of="Bounded(-1, 0, shape=(1,))", put="Bounded(-1, 0, shape=())", says="reward_spec has shape ()"),
        instead(BALL, of='"reward": -farther', put='"reward": farther', says="The data changed"),
    ],
    setup=SETUP,
)
def ball(Ball: Any) -> Outcome:
    """Run the library's check first, then try values that it may not have seen."""
    env = _made(Ball)
    namespace: dict[str, Any] = {"__name__": "reference"}
    exec(SETUP + BALL, namespace)
    what = "The data changed: the ball sends other data than before. They were right, so undo that."
    require(first_change(_kicked(namespace["Ball"]()), _kicked(env), "") is None, what)
    specs = _specs(env)
    what = f"An action is two numbers, but its spec has the shape {list(env.action_spec.shape)}."
    require(env.action_spec.shape == (2,), what, lambda: SpecExplorer(env))
    try:
        check_env_specs(env, seed=1)
    except AssertionError as error:
        row = str(error).partition("\n\nWhat to do")[0].split("\n")[3].strip()
        moment, entry, problem, expected, got = re.split(r"\s{2,}", row)
        fail(f"`check_env_specs` finds, at {moment}, a wrong {problem} of `{entry}`: {got}; its spec says {expected}.")
    for cases, legal in ((_LEGAL, True), (_ILLEGAL, False)):
        for key, values in cases.items():
            for numbers, meaning in values:
                dtype = torch.int8 if key == "walls" else torch.float32
                verb = "refuses" if legal else "accepts"
                said = f"`check_env_specs` finds nothing now, but the spec of `{key}` {verb} {numbers}: {meaning}."
                fits = specs[key].is_in(torch.tensor(numbers, dtype=dtype))
                require(fits == legal, said, lambda: SpecExplorer(env))
    return right(
        "It finds nothing, and you set the bounds: a check of a few steps cannot know them.", SpecExplorer(env)
    )


def _kicked(env: EnvBase) -> list[TensorDictBase]:
    """Kick the ball into a corner and back, past its specs."""
    data = [env._reset()]
    for kick in _KICKS:
        data.append(env._step(data[-1].clone().set("action", torch.tensor(kick))))
    return data


def _specs(env: EnvBase) -> dict[NestedKey, TensorSpec]:
    """The specs of the env by key, with each of the ball's entries among them."""
    found: dict[NestedKey, TensorSpec] = {"action": env.action_spec, "reward": env.reward_spec}
    seen = env.observation_spec.keys(True, True)
    for key in _LEGAL:
        if key not in found:
            require(key in seen, f"It has no spec of `{key}`, which `look` returns.", lambda: SpecExplorer(env))
            found[key] = env.observation_spec[key]
    return found
