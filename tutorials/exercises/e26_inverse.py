"""Exercise of lesson 26 on the inverse: turn an env whose actions are torques into one with discrete actions."""

from __future__ import annotations

from typing import Any

import torch
from rlnb_widgets import SpecExplorer, TransformInspector
from tensordict import TensorDictBase

from rlnb.data import Bounded, Categorical, TensorSpec
from rlnb.envs import PendulumEnv, SerialEnv, Transform, TransformedEnv, check_env_specs

from .asking import fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .verdict import Outcome

TORQUES = [-2.0, -0.5, 0.0, 0.5, 2.0]

_NO_VALUE = """\
# index: which of the torques, of shape [..., 1]
        ..."""
_NO_SPEC = """\
# spec: of the env's own action, which is a torque
        ..."""
_VALUE = "return self.torques[index]"
_SPEC = "return Categorical(len(self.torques), shape=spec.shape)"

STUB = f'''\
class Torques(Transform):
    """Outside, an action is the index of a torque. The env gets that torque."""

    def __init__(self, torques):
        super().__init__(in_keys_inv=["action"])
        self.torques = torch.tensor(torques)

    def _inv_apply_transform(self, index):
        {_NO_VALUE}

    def _inv_apply_to_spec(self, spec):
        {_NO_SPEC}
'''
SOLUTION = "from rlnb.data import Categorical\n\n\n" + STUB.replace(_NO_VALUE, _VALUE).replace(_NO_SPEC, _SPEC)


@exercise(
    title="A choice of torques",
    prompt="""
        The pendulum's action is any torque from -2 to 2, but many methods need a small set of actions. Complete
        `Torques(torques)`, around an env whose action is one number of shape `[1]`: from outside, an action is an
        index into the list `torques`, an integer of the same shape, and the action spec says so. For a batch of
        pendulums, all shapes have additional leading dimensions.
    """,
    stub=STUB,
    hints=[
        "The inverse runs on the way in: it gets the policy's choice and returns the env's action. The spec goes the "
        "other way: you get the env's spec and return the spec of the policy's choice.",
        "Indexing a tensor of torques with a tensor of integers gives a tensor of the shape of the index. For the "
        "spec, which spec in `rlnb.data` is a choice among n?",
        "Return `self.torques[index]` and `Categorical(len(self.torques), shape=spec.shape)`, which `rlnb.data` has.",
    ],
    solution=SOLUTION,
    wrong=[
        instead(SOLUTION, of=_SPEC, put="return spec", says="still says that an action is a torque"),
        instead(SOLUTION, of=_SPEC, put="...", says="`_inv_apply_to_spec` returns nothing"),
        instead(SOLUTION, of=_VALUE, put="...", says="`_inv_apply_transform` returns nothing"),
        instead(SOLUTION, of="len(self.torques), shape", put="5, shape", says="made with 3 torques"),
        instead(SOLUTION, of="len(self.torques), shape", put="len(self.torques) - 1, shape", says="4 choices"),
        instead(SOLUTION, of="shape=spec.shape", put="shape=()", says="the shape []"),
        instead(SOLUTION, of="shape=spec.shape", put="shape=(1,)", says="it raises ValueError"),
        instead(
            SOLUTION,
            of="return Categorical(len(self.torques), shape=spec.shape)",
            put="return OneHot(len(self.torques))",
            says="`OneHot`",
        ),
        instead(
            SOLUTION,
            of=_SPEC,
            put="return Bounded(0, len(self.torques) - 1, shape=spec.shape)",
            says="all numbers in between",
        ),
        instead(
            SOLUTION, of="self.torques[index]", put="self.torques[index - 1]", says="the torque before it in the list"
        ),
        instead(SOLUTION, of="self.torques[index]", put="index.float()", says="the index itself"),
        instead(SOLUTION, of="self.torques[index]", put="self.torques[index].squeeze(-1)", says="makes the shape []"),
        instead(
            SOLUTION, of="self.torques[index]", put="self.torques[index].reshape(1)", says="it raises RuntimeError"
        ),
        instead(
            SOLUTION,
            of="self.torques[index]",
            put="self.torques[torch.randint(len(self.torques), index.shape)]",
            says="another torque than the same index before",
        ),
        instead(SOLUTION, of="_inv_apply_transform", put="_apply_transform", says="has no inverse"),
        WrongAnswer(
            "def Torques(torques): return torch.tensor(torques)",
            says="Expected a subclass of `Transform`",
        ),
    ],
    accepted=[
        SOLUTION.replace(
            "Categorical(len(self.torques), shape=spec.shape)",
            "Bounded(0, len(self.torques) - 1, spec.shape, dtype=torch.int64)",
        ),
    ],
    setup="""
        import torch
        from rlnb.data import Bounded, Categorical, OneHot
        from rlnb.envs import Transform
    """,
)
def torques(Torques: Any) -> Outcome:
    """Check the spec, the torque of each index and a batch, then run the library's check."""
    require(isinstance(Torques, type) and issubclass(Torques, Transform), "Expected a subclass of `Transform`.")
    _check_methods(Torques)
    env = TransformedEnv(PendulumEnv(seed=0), Torques(TORQUES))
    _check_spec(env.action_spec, len(TORQUES), env)
    _check_torques(env)
    spec: Any = TransformedEnv(PendulumEnv(), Torques([-1.0, 0.0, 1.0])).action_spec
    count = spec.space.high.max() + 1 if isinstance(spec, Bounded) else spec.n
    require(count == 3, f"A `Torques` made with 3 torques has the action spec {_said(spec)}.")
    _check_batch(Torques)
    check_env_specs(env, seed=0)
    return right(
        "`check_env_specs` finds nothing, and a batch works too. In the inspector, follow the action on its way in.",
        TransformInspector(env, seed=0),
    )


def _check_methods(Torques: Any) -> None:
    """Each must return something; the library's own error would be harder to read."""
    made = Torques(TORQUES)
    require("_inv_apply_transform" in vars(Torques), "`Torques` has no inverse. Define `_inv_apply_transform`.")
    require("_inv_apply_to_spec" in vars(Torques), "`Torques` has no action spec. Define `_inv_apply_to_spec`.")
    empty = "` returns nothing. Is there a `return`?"
    spec = made._inv_apply_to_spec(PendulumEnv().action_spec)
    require(spec is not None, f"`_inv_apply_to_spec{empty}")
    require(isinstance(spec, TensorSpec), f"`_inv_apply_to_spec`: expected a spec, got {kind_of(spec)}.")
    torque = made._inv_apply_transform(torch.zeros(1, dtype=torch.int64))
    require(torque is not None, f"`_inv_apply_transform{empty}")
    what = f"`_inv_apply_transform`: expected a tensor, got {kind_of(torque)}."
    require(isinstance(torque, torch.Tensor), what)
    shape = list(torque.shape)
    require(shape == [1], f"`_inv_apply_transform` makes the shape {shape} from an index of shape [1].")


def _said(spec: Any) -> str:
    return f"`{type(spec).__name__}` of the shape {list(spec.shape)}" + (
        f" with {spec.n} choices" if hasattr(spec, "n") else ""
    )


def _check_spec(spec: Any, n: int, env: TransformedEnv) -> None:
    """Require a choice among n, of the shape of the torque."""
    if isinstance(spec, Bounded) and spec.dtype is not None and spec.dtype.is_floating_point:
        inside = spec == env.base_env.action_spec
        what = "still says that an action is a torque" if inside else "also allows all numbers in between"
        fail(f"The action spec {what}: it is a {_said(spec)}.", SpecExplorer(env.action_spec))
    if isinstance(spec, Bounded):  # of integers: as good as a Categorical if it holds the indices and nothing else
        low, high = int(spec.space.low.min()), int(spec.space.high.max())
        require(
            (low, high) == (0, n - 1),
            f"Expected an action spec from 0 to {n - 1} for {n} torques, got {low} to {high}.",
        )
    else:
        require(isinstance(spec, Categorical), f"The action spec is a {_said(spec)}. Use a spec for indices.")
        require(spec.n == n, f"The action spec has {spec.n} choices, but there are {n} torques.")
    shape = list(spec.shape)
    require(shape == [1], f"The action spec has the shape {shape}, but the env's own action has the shape [1].")


def _check_torques(env: TransformedEnv) -> None:
    """Step once with each index, twice, and infer the torque."""
    wanted = [_swung(env.base_env, torch.tensor([torque])) for torque in TORQUES]
    known = dict(zip(wanted, TORQUES, strict=True))
    for index in (2, 1, 3, 4, 0):
        torque = TORQUES[index]
        first, second = (_swung(env, torch.tensor([index])) for _ in range(2))
        got = known.get(first)
        what = f"Index {index} gives another torque than the same index before."
        require(first == second, what)
        if got == torque:
            continue
        said = f"For index {index} the env got "
        if got is not None and got == TORQUES[index - 1]:
            fail(f"{said}{got}, the torque before it in the list.", TransformInspector(env, seed=0))
        if first == _swung(env.base_env, torch.tensor([float(index)])):
            fail(f"{said}the index itself as its torque.", TransformInspector(env, seed=0))
        fail(f"{said}another torque than {torque}.", TransformInspector(env, seed=0))


def _swung(env: Any, action: torch.Tensor) -> float:
    """The velocity after one step from rest, hanging to the side."""
    td = env.reset()
    td["th"], td["thdot"] = torch.tensor(1.0), torch.tensor(0.0)
    velocity: float = env.step(td.set("action", action))["next", "thdot"].item()
    return round(velocity, 5)


def _check_batch(Torques: Any) -> None:
    said = "For a batch of 4 pendulums "
    try:
        env = TransformedEnv(SerialEnv(4, PendulumEnv), Torques(TORQUES))
        shape = list(env.action_spec.shape)
        if shape == [4, 1]:
            td: TensorDictBase = env.reset()
            td["th"], td["thdot"] = torch.ones(4), torch.zeros(4)
            index = torch.tensor([[0], [4], [2], [1]])
            got = env.step(td.set("action", index))["next", "thdot"]
    except (RuntimeError, ValueError, IndexError) as error:
        fail(f"{said}it raises {type(error).__name__}: {error}")
    require(shape == [4, 1], f"{said}expected an action spec of shape [4, 1], got {shape}.")
    one = TransformedEnv(PendulumEnv(), Torques(TORQUES))
    alone = [_swung(one, torch.tensor(i)) for i in index.tolist()]
    require([round(v, 5) for v in got.tolist()] == alone, f"{said}each should get the torque of its own index.")
