"""Exercise of lesson 20 on the specs of an environment: find what is wrong with those of a lift."""

from __future__ import annotations

import re
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer, SpecExplorer
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import EnvBase, check_env_specs

from .asking import fail, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

SETUP = """
import torch
from tensordict import TensorDict
from rlnb.data import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
from rlnb.envs import EnvBase, check_env_specs
"""

_STUB_SPECS = """\
self.observation_spec = Composite(
            floor=OneHot(5),
            load=Bounded(0, 1, shape=(1,)),
        )
        self.action_spec = Categorical(2)"""
_RIGHT_SPECS = """\
self.observation_spec = Composite(
            floor=Categorical(5),
            load=Bounded(0, 300, shape=(1,)),
            buttons=Binary(5),
        )
        self.action_spec = Categorical(3)"""

STUB = f'''\
class Lift(EnvBase):
    """A lift: action 0 goes down, 1 stays, 2 goes up. It starts on floor 0, and ends on floor 4."""

    def __init__(self):
        super().__init__()
        {_STUB_SPECS}

    def _reset(self, tensordict=None, **kwargs):
        self.floor = torch.tensor(0)
        return self.look()

    def _step(self, tensordict):
        self.floor = (self.floor + tensordict["action"] - 1).clamp(0, 4)
        top = (self.floor == 4).reshape(1)
        return self.look().update({{"reward": -torch.ones(1), "terminated": top}})

    def look(self):
        load = 300 * torch.rand(1)  # in kilograms; 300 is the most it carries
        buttons = torch.randint(0, 2, (5,), dtype=torch.int8)  # for each floor: is its button lit?
        return TensorDict({{"floor": self.floor, "load": load, "buttons": buttons}})

    def _set_seed(self, seed):
        torch.manual_seed(seed)  # all is drawn from torch's generator
'''

LIFT = STUB.replace(_STUB_SPECS, _RIGHT_SPECS)

_UP_AND_DOWN = [1, 2, 2, 0, 2, 2, 2, 0]  # every floor, and every action

# What an entry may be and may not be: numbers, and what they are.
_LEGAL: dict[str, list[tuple[list[float], str]]] = {
    "floor": [([0], "the floor where it starts"), ([4], "the top floor")],
    "load": [([0.0], "an empty lift"), ([300.0], "a full lift")],
    "buttons": [([0] * 5, "no button lit"), ([1] * 5, "all buttons lit")],
}
_ILLEGAL: dict[str, list[tuple[list[float], str]]] = {
    "floor": [([-1], "below the house"), ([5], "above the house")],
    "load": [([-1.0], "less than nothing"), ([301.0], "more than it carries")],
    "buttons": [([0, 0, 2, 0, 0], "a button that is neither dark nor lit")],
}


@exercise(
    title="Fix the specs of a lift",
    prompt="""
        The data of this `Lift` are right: its methods do what their comments say. Its specs are wrong in four places.
        Fix them in `__init__`, and nowhere else. `check_env_specs(Lift())`, in a new cell, finds some of the mistakes.
        Find the others by reading: it draws its actions from the spec and checks only a few steps. In the end, each
        spec should allow exactly what the lift can send or understand.
    """,
    stub=STUB,
    hints=[
        "Compare the entries in `look` with those in `observation_spec`: is each one there, with the same shape and "
        "dtype? Which values can each have?",
        "`floor` is an index, not a vector, so it needs the spec of an index. The load goes from 0 to 300. `buttons` "
        "are five bits and have no spec yet. How many actions does `_step` understand?",
        "`floor=Categorical(5)`, `load=Bounded(0, 300, shape=(1,))`, and a `Binary` for the buttons. There are three "
        "actions: 0, 1 and 2.",
    ],
    solution=LIFT,
    wrong=[
        instead(LIFT, of="floor=Categorical(5)", put="floor=OneHot(5)", says="floor: expected shape [5], got []"),
        instead(LIFT, of="floor=Categorical(5)", put="floor=Categorical(4)", says="the top floor"),
        instead(LIFT, of="floor=Categorical(5)", put="floor=Unbounded((), dtype=torch.int64)", says="below the house"),
        instead(LIFT, of="Bounded(0, 300", put="Bounded(0, 1", says="is outside [0, 1]"),
        instead(LIFT, of="Bounded(0, 300", put="Bounded(0, 270", says="at step 3, a wrong domain of `load`"),
        instead(LIFT, of="Bounded(0, 300", put="Bounded(0, 299", says="a full lift"),
        instead(
            LIFT,
            of="super().__init__()\n",
            put="super().__init__()\n        self.reward_spec = Bounded(0, 1, (1,))\n",
            says="a wrong domain of `reward`",
        ),
        instead(LIFT, of="Bounded(0, 300, shape=(1,))", put="Unbounded((1,))", says="less than nothing"),
        instead(LIFT, of="            buttons=Binary(5),\n", put="", says="buttons: not in the spec"),
        instead(LIFT, of="buttons=Binary(5)", put="buttons=Binary(4)", says="buttons: expected shape [4], got [5]"),
        instead(LIFT, of="buttons=Binary(5)", put="buttons=Categorical(2, shape=(5,))", says="expected dtype"),
        instead(LIFT, of="Binary(5)", put="Bounded(0, 5, shape=(5,), dtype=torch.int8)", says="neither dark nor lit"),
        instead(LIFT, of="Categorical(3)", put="Categorical(2)", says="never goes up"),
        instead(LIFT, of="Categorical(3)", put="Categorical(4)", says="3 for an action"),
        instead(LIFT, of="Categorical(3)", put="OneHot(3)", says="one-hot vector"),
        instead(LIFT, of="300 * torch.rand(1)", put="torch.rand(1)", says="The data changed"),
        instead(LIFT, of='"load": load, "buttons": buttons', put='"load": load', says="The data changed"),
        WrongAnswer("Lift = dict", says="Expected a subclass"),
    ],
    accepted=[
        LIFT.replace("Categorical(5)", "Bounded(0, 4, shape=(), dtype=torch.int64)"),
        LIFT.replace("Categorical(3)", "Bounded(0, 2, shape=(), dtype=torch.int64)"),
        LIFT.replace("Binary(5)", "Categorical(2, shape=(5,), dtype=torch.int8)"),
    ],
    setup=SETUP,
)
def lift(Lift: Any) -> Outcome:
    """Run the library's check first, then look for what it cannot see: more values, and values that nobody sends."""
    require(isinstance(Lift, type) and issubclass(Lift, EnvBase), "Expected a subclass of `EnvBase`.")
    env: EnvBase = Lift()
    what = "`_step` reads an action as one number, but the action spec describes a one-hot vector."
    require(env.action_spec.shape == (), what, lambda: SpecExplorer(env))
    _check_data(env)
    try:
        check_env_specs(env, seed=1)
    except AssertionError as error:
        _explain(env, str(error))
    for key in _LEGAL:
        _check_values(key, env)
    _check_actions(env)
    return right(
        "You found all four. `check_env_specs` sees only three of them: it draws the actions from the spec itself."
    )


def _check_data(env: EnvBase) -> None:
    """Require that the env sends what the unrepaired one sends."""
    namespace: dict[str, Any] = {"__name__": "reference"}
    exec(SETUP + LIFT, namespace)
    sent, wanted = _recorded(env), _recorded(namespace["Lift"]())
    same = all(set(a.keys()) == set(b.keys()) and bool((a == b).all()) for a, b in zip(sent, wanted, strict=True))
    require(
        same,
        "The data changed: with the same seed, the lift sends other data than before. They were right, so undo that.",
    )


def _recorded(env: EnvBase) -> list[TensorDictBase]:
    """Send the lift up and down, past its specs."""
    env.set_seed(0)
    return [env._reset(), *(env._step(TensorDict({"action": torch.tensor(move)})) for move in _UP_AND_DOWN)]


def _explain(env: EnvBase, report: str) -> None:
    """Say what does not fit, without what to do about it, which the library's report tells who asks for it."""
    env.set_seed(0)
    found = env.observation_spec.violations(env._reset())
    if not found:
        rows = report.partition("\n\nWhat to do")[0].split("\n")[3:]
        moment, entry, problem, expected, got = re.split(r"\s{2,}", rows[0].strip())
        fail(f"`check_env_specs` finds, at {moment}, a wrong {problem} of `{entry}`: {got}; its spec says {expected}.")
    count = "one entry does not match" if len(found) == 1 else f"{len(found)} entries do not match; the first one"
    first = str(found[0]).partition(". ")[0]
    fail(f"In the data of a reset {count}:\n`{first}`")


def _check_values(key: str, env: EnvBase) -> None:
    """Require that a spec accepts the edges of what the lift sends, and nothing beyond them."""
    spec, sent = env.observation_spec[key], env._reset()[key]
    for cases, legal in ((_LEGAL, True), (_ILLEGAL, False)):
        for numbers, meaning in cases[key]:
            value = torch.tensor(numbers).to(sent.dtype).reshape(sent.shape)
            verb = "refuses" if legal else "accepts"
            said = f"`check_env_specs` finds nothing now, but the spec of `{key}` {verb} {value.tolist()}: {meaning}."
            require(spec.is_in(value) == legal, said, lambda: SpecExplorer(env.observation_spec))


def _check_actions(env: EnvBase) -> None:
    """Require the three actions, and no other."""
    legal = [action for action in range(-1, 5) if env.action_spec.is_in(torch.tensor(action))]
    if 2 not in legal:
        env.set_seed(0)
        player = RolloutPlayer(env.rollout(30), strips=["floor", "action"])
        fail("`check_env_specs` finds nothing now, but with random actions the lift never goes up:", player)
    odd = [action for action in legal if action not in (0, 1, 2)]
    require(not odd, f"The spec allows {odd[0]} for an action. What would `_step` do with it?" if odd else "")
    require(legal == [0, 1, 2], f"The spec allows the actions {legal}. Which ones does `_step` understand?")
