"""Exercise of lesson 26 on state: a transform that keeps state and resets it at each new episode."""

from __future__ import annotations

from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import CartPoleEnv, Transform, TransformedEnv, check_env_specs

from .asking import fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .recorded import where
from .verdict import Outcome

_STEPS = 120
_SEED = 3
_START = 'tensordict_reset["farthest"] = tensordict_reset["observation"][..., :1].abs()'
_GO_ON = """\
distance = next_tensordict["observation"][..., :1].abs()
        next_tensordict["farthest"] = torch.maximum(tensordict["farthest"], distance)"""
_ADD = 'observation_spec["farthest"] = Unbounded(shape=(*observation_spec.shape, 1))'

_CLASS = '''\
class Farthest(Transform):
    """Adds "farthest": how far from the centre the cart has been in this episode, in metres."""

    def _reset(self, tensordict, tensordict_reset):
        {}
        return tensordict_reset

    def _step(self, tensordict, next_tensordict):
        {}
        return next_tensordict

    def transform_observation_spec(self, observation_spec):
        {}
        return observation_spec
'''
STUB = _CLASS.format(
    "# tensordict_reset: the result of the reset; write the first value into it\n        ...",
    "# tensordict: the root of the step, with the value so far;\n"
    "        # next_tensordict: the result of the step\n        ...",
    "# a Composite of shape [...]: add the spec of the entry, of shape [..., 1]\n        ...",
)
SOLUTION = "from rlnb.data import Unbounded\n\n\n" + _CLASS.format(_START, _GO_ON, _ADD)

_ATTRIBUTE = """
class Farthest(Transform):
    def __init__(self):
        super().__init__()
        self.farthest = torch.zeros(1)

    def _call(self, td):
        self.farthest = torch.maximum(self.farthest, td["observation"][..., :1].abs())
        return td.set("farthest", self.farthest)

    def transform_observation_spec(self, observation_spec):
        observation_spec["farthest"] = Unbounded(shape=(*observation_spec.shape, 1))
        return observation_spec
"""
_STEP_OF_ATTRIBUTE = """
    def _reset(self, tensordict, tensordict_reset):
        self.farthest = tensordict_reset["observation"][..., :1].abs()
        return tensordict_reset.set("farthest", self.farthest)

    def transform"""


@exercise(
    title="Keep state, and reset it",
    prompt="""
        Complete `Farthest()`, a transform for cart poles. It adds an entry `"farthest"` of shape `[1]`: the greatest
        distance from the centre since the episode began, including the starting position. The position is the first of
        the four numbers of the observation. It must also work for a batch, in which some copies are reset while others
        continue.
    """,
    stub=STUB,
    hints=[
        "Where is the value so far? It was written into the data of the step before, and `step_mdp` has made a root of "
        "that.",
        "At a reset, the value is the distance at the start. In a step, it is the `torch.maximum` of the value in the "
        "root and the current distance.",
        '`tensordict["farthest"]` is the value so far, and `next_tensordict["observation"][..., :1].abs()` the '
        'current distance. The spec is `observation_spec["farthest"] = Unbounded(shape=(*observation_spec.shape, 1))`, '
        "and `Unbounded` comes from `rlnb.data`.",
    ],
    solution=SOLUTION,
    wrong=[
        WrongAnswer(_ATTRIBUTE, says="from the previous episode"),
        WrongAnswer(_ATTRIBUTE.replace("\n    def transform", _STEP_OF_ATTRIBUTE, 1), says="was not reset"),
        instead(
            SOLUTION,
            of=_START,
            put='tensordict_reset["farthest"] = torch.zeros(tensordict_reset.shape + (1,))',
            says="the starting position",
        ),
        instead(SOLUTION, of=_START, put="...", says='`_reset` must return "farthest"'),
        instead(SOLUTION, of='torch.maximum(tensordict["farthest"], distance)', put="distance", says="It decreases"),
        instead(
            SOLUTION,
            of='tensordict["farthest"], distance',
            put='next_tensordict["farthest"], distance',
            says='next_tensordict["farthest"]',
        ),
        instead(
            SOLUTION,
            of=_GO_ON,
            put='next_tensordict["farthest"] = tensordict["farthest"]',
            says="keeps its first value",
        ),
        instead(SOLUTION, of=_GO_ON, put="...", says='`_step` must return "farthest"'),
        instead(SOLUTION, of=_ADD, put="...", says="is in no spec"),
        instead(SOLUTION, of="(*observation_spec.shape, 1)", put="(1,)", says="For a batch of copies"),
        instead(SOLUTION, of=":1].abs()", put="0].abs()", says="got shape []"),
        instead(SOLUTION, of=":1].abs()", put=":1]", says="without its sign"),
        instead(SOLUTION, of=":1].abs()", put="1:2].abs()", says="the velocity"),
        instead(SOLUTION, of="torch.maximum", put="torch.add", says="adds up the distances"),
        instead(SOLUTION, of="        return tensordict_reset", put="        pass", says="got `None`"),
        WrongAnswer("def Farthest(): return None", says="Expected a subclass of `Transform`"),
    ],
    setup="import torch\nfrom rlnb.data import Bounded, Unbounded\nfrom rlnb.envs import Transform",
)
def farthest(Farthest: Any) -> Outcome:
    """Check one episode, the next one, copies that are reset separately, and the specs."""
    require(isinstance(Farthest, type) and issubclass(Farthest, Transform), "Expected a subclass of `Transform`.")
    _check_entries(Farthest)
    env = TransformedEnv(_carts(), Farthest())
    env.set_seed(_SEED)
    td = env.rollout(_STEPS, _lean, break_when_any_done=False)
    _check_one(td, env)
    _check_copies(Farthest)
    check_env_specs(TransformedEnv(_carts(), Farthest()), seed=0)
    ends = len(where(td["next", "done"]))
    return right(
        f'It holds through {ends} ends, and in a batch. "farthest" never falls within an episode, and starts anew with '
        "each.",
        RolloutPlayer(td, env, strips=[("observation", 0), "farthest"]),
    )


def _carts(copies: int | None = None) -> CartPoleEnv:
    batch = None if copies is None else [copies]
    return CartPoleEnv(batch_size=batch, max_steps=40, categorical_action_encoding=True)


def _lean(td: TensorDictBase) -> TensorDictBase:
    return td.set("action", (td["observation"][..., 2] > 0).long())


def _check_entries(Farthest: type[Transform]) -> None:
    """Require the entry after a reset and a step, in its shape and in the specs."""
    plain, made = _carts(), Farthest()
    plain.set_seed(_SEED)
    root = _given(made._reset(TensorDict({}), plain.reset()), "`_reset`")
    step = plain.step(_lean(root.clone()))
    _given(made._step(step.exclude("next"), step["next"]), "`_step`")
    known = TransformedEnv(plain, Farthest()).observation_spec.keys(True, True)
    require("farthest" in known, '"farthest" is in no spec, so collectors and buffers do not know about it.')


def _given(td: Any, what: str) -> TensorDictBase:
    require(isinstance(td, TensorDictBase), f"{what} must return a TensorDict, got {kind_of(td)}.")
    keys = sorted(map(str, td.keys()))
    require("farthest" in keys, f'{what} must return "farthest", got only {keys}.')
    shape = list(td["farthest"].shape)
    require(shape == [1], f'{what}: expected "farthest" of shape [1], got shape {shape}.')
    found: TensorDictBase = td
    return found


def _check_one(td: TensorDictBase, env: TransformedEnv) -> None:
    got, position = td["next", "farthest"], td["next", "observation"][..., :1]
    root, done = td["farthest"], where(td["next", "done"])
    starts = [0, *(t + 1 for t in done if t + 1 < len(td))]
    picture = RolloutPlayer(td, env, strips=[("observation", 0), "farthest"])
    signed = _wanted(td, td["observation"][..., :1], position)
    if torch.allclose(got, signed, atol=1e-5) and not torch.allclose(got, _true(td)):
        fail("It uses the position with its sign. A distance is without its sign.", picture)
    if torch.allclose(got, _wanted(td, td["observation"][..., 1:2].abs(), td["next", "observation"][..., 1:2].abs())):
        fail("It uses the velocity, which is the second of the four numbers.", picture)
    begun = [t for t in starts if not torch.isclose(root[t], td["observation"][t, :1].abs())]
    if begun:
        t = begun[0]
        said = f'In row {t} an episode begins, {td["observation"][t, 0].abs():.4f} from the centre, and "farthest" is '
        if t and torch.isclose(root[t], got[t - 1]):
            picture.t = t
            fail(f"{said}{root[t].item():.4f}, from the previous episode.", picture)
        fail(f"{said}{root[t].item():.4f}. Include the starting position.", picture)
    inside = [t for t in range(len(td)) if not torch.isclose(got[t], _true(td)[t], atol=1e-5)]
    if inside:
        t = inside[0]
        said = f'In row {t}, "farthest" is {got[t].item():.4f} after the step and {root[t].item():.4f} before it. '
        if (got[inside] < root[inside]).any():
            fail(f"{said}It decreases within an episode.", picture)
        if torch.equal(got, root):
            fail(f"{said}It keeps its first value.", picture)
        if torch.isclose(got[t], root[t] + position[t].abs()):
            fail(f"{said}It adds up the distances.", picture)
        fail(f"{said}The distance is {position[t].abs().item():.4f}.", picture)


def _true(td: TensorDictBase) -> torch.Tensor:
    return _wanted(td, td["observation"][..., :1].abs(), td["next", "observation"][..., :1].abs())


def _wanted(td: TensorDictBase, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """The greatest of some numbers since the start of each episode, for a rollout of shape ``[T]``."""
    rows, most = [], before[0]
    for t in range(len(td)):
        most = torch.maximum(most, after[t])
        rows.append(most)
        if td["next", "done"][t] and t + 1 < len(td):
            most = before[t + 1]
    return torch.stack(rows)


def _check_copies(Farthest: type[Transform]) -> None:
    """Require the same of three copies, whose episodes end at other times."""
    said = "For a batch of copies "
    try:
        env = TransformedEnv(_carts(3), Farthest())
        env.set_seed(1)
        td = env.rollout(_STEPS, _lean, break_when_any_done=False)
        check_env_specs(env, seed=0)
    except (AssertionError, RuntimeError, ValueError) as error:
        fail(f"{said}it raises {type(error).__name__}: {error}")
    for copy in range(3):
        row = td[copy]
        wrong = ~torch.isclose(row["next", "farthest"], _true(row), atol=1e-5)
        if not wrong.any():
            continue
        t = where(wrong)[0]
        others = [i for i in range(3) if i != copy and t and td["next", "done"][i, t - 1]]
        why = f"Copy {others[0]} was reset there, and copy {copy} was not reset." if others else "One copy is wrong."
        player = RolloutPlayer(row, _carts(), strips=[("observation", 0), "farthest"], t=t)
        fail(f'{said}"farthest" of copy {copy} is wrong from row {t} on. {why}', player)
