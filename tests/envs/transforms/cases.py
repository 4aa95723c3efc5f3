"""The transforms that the cross-product tests run over: new ones are added to ``CASES``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import (
    ActionMask,
    CatTensors,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    EnvBase,
    ExcludeTransform,
    GridWorldEnv,
    InitTracker,
    RemoveEmptySpecs,
    RenameTransform,
    RewardSum,
    SelectTransform,
    StepCounter,
    TensorDictPrimer,
    Transform,
)

ENDS = ("done", "terminated", "truncated")


class Numbers(EnvBase):
    """Two observations in float64, a float64 action, and episodes of random length, in any number of copies."""

    def __init__(self, batch_size=()):
        super().__init__(batch_size=batch_size)
        batch = self.batch_size
        double = {"dtype": torch.float64}
        self.observation_spec = Composite(
            {
                "position": Bounded(-100, 100, shape=(*batch, 2), **double),
                "velocity": Bounded(-10, 10, shape=(*batch, 1), **double),
            },
            shape=batch,
        )
        self.action_spec = Bounded(-1, 1, shape=(*batch, 1), **double)
        self.reward_spec = Unbounded(shape=(*batch, 1))
        flag = Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        self.done_spec = Composite({key: flag.clone() for key in ENDS}, shape=batch)
        self.generator = torch.Generator()
        self.position = torch.zeros(*batch, 2, dtype=torch.float64)

    def _observe(self):
        return {"position": self.position.clone(), "velocity": self.position[..., :1] / 10}

    def _reset(self, tensordict=None, **kwargs):
        fresh = torch.rand((*self.batch_size, 2), generator=self.generator, dtype=torch.float64)
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.position = fresh if mask is None else torch.where(mask, fresh, self.position)
        return TensorDict(self._observe(), self.batch_size)

    def _step(self, tensordict):
        assert tensordict["action"].dtype == torch.float64
        self.position = self.position + tensordict["action"].abs()
        terminated = torch.rand((*self.batch_size, 1), generator=self.generator) < 0.2
        data = {**self._observe(), "reward": self.position.sum(-1, keepdim=True).float(), "terminated": terminated}
        return TensorDict(data, self.batch_size)

    def _set_seed(self, seed):
        self.generator.manual_seed(0 if seed is None else seed)

    def __getstate__(self):
        return {**self.__dict__, "generator": self.generator.get_state()}

    def __setstate__(self, state):
        super().__setstate__({**state, "generator": torch.Generator()})
        self.generator.set_state(state["generator"])


class Agents(Numbers):
    """:class:`Numbers` for three agents each, which end and are rewarded one by one, with an end for all besides."""

    def __init__(self, batch_size=()):
        super().__init__(batch_size)
        batch = self.batch_size
        flag = Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        each = Categorical(2, shape=(*batch, 3, 1), dtype=torch.bool)
        group = Composite({key: each.clone() for key in ENDS}, shape=batch)
        self.done_spec = Composite({"agents": group, **{key: flag.clone() for key in ENDS}}, shape=batch)
        self.reward_spec = Composite({"agents": {"reward": Unbounded(shape=(*batch, 3, 1))}}, shape=batch)
        self.action_spec = Composite({"agents": {"action": Bounded(-1, 1, shape=(*batch, 3, 1))}}, shape=batch)

    def _step(self, tensordict):
        action = tensordict["agents", "action"]
        assert action.dtype == torch.float32
        result = super()._step(TensorDict({"action": action.double().sum(-2)}, self.batch_size))
        terminated = result["terminated"].unsqueeze(-2).expand(action.shape).clone()
        result["agents"] = TensorDict({"reward": action.abs(), "terminated": terminated}, self.batch_size)
        return result.exclude("reward")


def grid(batch_size=()):
    """A grid world with a mask of the legal moves, and holes to fall into."""
    return GridWorldEnv(["S.H", ".#.", "..G"], action_mask=True, batch_size=batch_size, max_steps=10)


def add_sum(td):
    """A plain function that changes what is there."""
    return td.set("velocity", td["velocity"] * 2)


def prefixed(key):
    """Another name for a key, at the same level."""
    return f"new_{key}" if isinstance(key, str) else (*key[:-1], f"new_{key[-1]}")


@dataclass(frozen=True)
class Case:
    """A transform, and what is to be known of it.

    Args:
        name: of the case.
        make: makes it for an env.
        alone: what it does to plain data (see ``data``): the entries that are new or changed, and those that are
            gone; or the error, or errors, that it raises.
        envs: makers of the envs that it is tried in, from a batch size.
        takes_all: it takes all observations there are, so that nothing else may have been added before it.
        plain: makes the plain data, in place of ``data``.
        action: an action of four rows that its inverse takes; None for any numbers.
    """

    name: str
    make: Callable[[EnvBase], Any]
    alone: tuple[set[Any], set[Any]] | type[Exception] | tuple[type[Exception], ...]
    envs: tuple[Callable[..., EnvBase], ...] = (Numbers, Agents)
    takes_all: bool = False
    plain: Callable[..., TensorDict] | None = None
    action: torch.Tensor | None = None

    @property
    def fails(self) -> Any:
        """The errors that it raises alone, or None."""
        alone = self.alone if isinstance(self.alone, tuple) else (self.alone,)
        return alone if isinstance(alone[0], type) else None

    def data(self, batch_size: tuple[int, ...]) -> TensorDict:
        """Make plain data for it."""
        return (self.plain or data)(batch_size)

    def __str__(self) -> str:
        return self.name


def data(batch_size):
    """Plain data of any batch size: a step in the TED format, with an empty TensorDict."""
    batch = torch.Size(batch_size)

    def part():
        return {"position": torch.rand(*batch, 2, dtype=torch.float64), "velocity": torch.rand(*batch, 1).double()}

    ends = {key: torch.rand(*batch, 1) < 0.3 for key in ENDS}
    return TensorDict(
        {
            **part(),
            "action": torch.rand(*batch, 1),
            "empty": TensorDict({}, batch),
            **ends,
            "next": {**part(), "reward": torch.rand(*batch, 1), **{key: flag.clone() for key, flag in ends.items()}},
        },
        batch,
    )


DOUBLES = {"position", "velocity", ("next", "position"), ("next", "velocity")}
ROOT_ENDS = set(ENDS)

CASES = [
    Case("StepCounter", lambda env: StepCounter(), NotImplementedError),
    Case("StepCounter(max_steps)", lambda env: StepCounter(2), NotImplementedError),
    Case("StepCounter(own key)", lambda env: StepCounter(2, truncated_key="over"), NotImplementedError),
    Case("InitTracker", lambda env: InitTracker(), NotImplementedError),
    Case("RewardSum", lambda env: RewardSum(), ValueError),
    Case("RewardSum(keys)", lambda env: RewardSum(env.reward_keys, ["total"]), ValueError),
    Case("ActionMask", lambda env: ActionMask(), RuntimeError, (grid,)),
    Case(
        "RenameTransform",
        lambda env: RenameTransform(["position", "velocity"], ["velocity", ("moved", "position")]),
        ({"velocity", ("moved", "position")}, {"position"}),
    ),
    Case(
        "RenameTransform(create_copy)",
        lambda env: RenameTransform("position", "copied", create_copy=True),
        ({"copied"}, set()),
    ),
    Case(
        "RenameTransform(rewards, actions)",
        lambda env: RenameTransform(
            env.reward_keys, list(map(prefixed, env.reward_keys)), env.action_keys, list(map(prefixed, env.action_keys))
        ),
        KeyError,
    ),
    Case(
        "RenameTransform(ends)",
        lambda env: RenameTransform(list(ENDS), [("all", key) for key in ENDS]),
        ({("all", key) for key in ENDS}, ROOT_ENDS),
    ),
    Case(
        "SelectTransform",
        lambda env: SelectTransform("position"),
        (set(), {"velocity", "action", ("next", "position"), ("next", "velocity")}),
    ),
    Case("ExcludeTransform", lambda env: ExcludeTransform("velocity", "nothing"), (set(), {"velocity"})),
    Case("ExcludeTransform(inverse)", lambda env: ExcludeTransform("velocity", inverse=True), (set(), set())),
    Case("RemoveEmptySpecs", lambda env: RemoveEmptySpecs(), (set(), set())),
    Case("CatTensors", lambda env: CatTensors(), ValueError, takes_all=True),
    Case(
        "CatTensors(keys)",
        lambda env: CatTensors(["velocity", "position"], "vector"),
        ({"vector"}, {"position", "velocity"}),
    ),
    Case(
        "CatTensors(keep)",
        lambda env: CatTensors(["velocity", "position"], "vector", del_keys=False, sort=False),
        ({"vector"}, set()),
    ),
    Case("DoubleToFloat", lambda env: DoubleToFloat(), (DOUBLES, set())),
    Case("DoubleToFloat(keys)", lambda env: DoubleToFloat("velocity", "slow"), ({"slow"}, set())),
    Case(
        "DTypeCastTransform(inverse)",
        lambda env: DTypeCastTransform(
            env.full_action_spec[env.action_key].dtype, torch.float16, [], [], env.action_key
        ),
        (set(), set()),
    ),
    Case(
        "TensorDictPrimer",
        lambda env: TensorDictPrimer(hidden=Unbounded(shape=(3,)), default_value=1.5, expand_specs=True),
        ({"hidden"}, set()),
    ),
    Case(
        "TensorDictPrimer(random)",
        lambda env: TensorDictPrimer({("deep", "hidden"): Categorical(5)}, random=True),
        ({("deep", "hidden")}, set()),
    ),
    Case("a function", lambda env: add_sum, ({"velocity"}, set())),
    Case("Compose()", lambda env: Compose(), (set(), set())),
    Case(
        "Compose",
        lambda env: Compose(DoubleToFloat(), CatTensors(["position", "velocity"], "vector")),
        (DOUBLES - {"position", "velocity"} | {"vector"}, {"position", "velocity"}),
    ),
]


class Double(Transform):
    """Doubles values forwards, and halves them backwards: the smallest transform that there is."""

    def _apply_transform(self, value):
        return value * 2

    def _inv_apply_transform(self, value):
        return value / 2


CASES.append(
    Case(
        "an own transform",
        lambda env: Double("velocity", "speed", env.action_keys[:1], ["push"]),
        ({"speed"}, set()),
    )
)
