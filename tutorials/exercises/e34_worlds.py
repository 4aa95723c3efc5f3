"""Exercises of lesson 34 on other libraries: returns of any world, and the core of a wrapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict, TensorDictBase

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import EnvBase, GymLikeEnv, check_env_specs

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .kite import Kite
from .mutants import instead
from .verdict import Outcome

_MOST = 50  # steps
PLAY = """
    def play(env):
        td = env.rollout(50)
        time = len(env.batch_size)
        return {key: td["next"][key].sum(time) for key in env.reward_keys}
"""
_PART = 'td["next"][key].sum(time)'


@exercise(
    title="The return in any world",
    prompt="""
        Write `play(env)`: play one episode with random actions, at most 50 steps, and return a dictionary with the
        return for each key in `env.reward_keys`. A return is the sum of the rewards over *time* only. Each copy in a
        batch, each agent and each component of a vector reward has its own return: a reward of shape `[*B, T, ...]`
        gives a return of shape `[*B, ...]`, where `B` is `env.batch_size`.
    """,
    stub="""
        def play(env):
            # without a policy, env.rollout plays random actions until the first end
            ...
    """,
    hints=[
        "`env.rollout(50)` is the episode. Two things differ between worlds: the keys of the rewards, and which "
        "dimension is time.",
        'Rewards are under `td["next"]`, at the root or in a group: `td["next"][key]`, for each key of '
        "`env.reward_keys`, whether a string or a tuple.",
        "Time comes after the batch dimensions, so its index is `len(env.batch_size)`. Sum over this dimension.",
    ],
    solution=PLAY,
    wrong=[
        instead(PLAY, of=".sum(time)", put=".sum(0)", says="Time comes after the batch dimensions"),
        instead(PLAY, of=".sum(time)", put=".sum(1)", says="one game of one player"),
        instead(PLAY, of=".sum(time)", put=".sum()", says="Keep one return for each"),
        instead(PLAY, of=".sum(time)", put=".mean(time)", says="a mean over time"),
        instead(PLAY, of=_PART, put=f"{_PART[:-10]}.select(time, -1)", says="only the last reward"),
        instead(PLAY, of=_PART, put=f"{_PART}.sum(-1, keepdim=True)", says="components of the vector"),
        instead(PLAY, of="env.rollout(50)", put="env.rollout(50, break_when_any_done=False)", says="after the end"),
        instead(PLAY, of="env.rollout(50)", put="env.rollout(1000)", says="more than 50 steps"),
        instead(PLAY, of="env.rollout(50)", put="env.rollout(10)", says="It stops too early"),
        instead(PLAY, of='td["next"][key]', put="td[key]", says="Rewards are under"),
        WrongAnswer(
            'def play(env): return {"reward": env.rollout(50)["next", "reward"].sum(len(env.batch_size))}',
            says="keys `('team', 'reward')`",
        ),
        WrongAnswer(
            'def play(env): return env.rollout(50)["next", "reward"].sum(len(env.batch_size))',
            says="Expected a dictionary",
        ),
        WrongAnswer(
            """
            def play(env):
                td = env.rollout(50)
                keys = env.reward_keys[:1]
                return {key: td["next"][key].sum(len(env.batch_size)) for key in keys}
            """,
            says="Expected a return for `('right', 'reward')`",
        ),
    ],
    accepted=[
        """
        def play(env):
            td_, found = env.reset(), None
            for _ in range(50):
                td = env.rand_step(td_)
                rewards = {key: td["next"][key].clone() for key in env.reward_keys}
                found = rewards if found is None else {key: found[key] + rewards[key] for key in found}
                if td["next", "done"].any():
                    return found
                td_ = td["next"].exclude(*env.reward_keys)
            return found
        """,
    ],
)
def play(play: Callable[..., Any]) -> Outcome:
    """Let it play in worlds whose rewards depend only on the time, so that every episode has the same returns."""
    for world in _WORLDS:
        _compare(world, _asked(play, world))
    return right(
        "One function for a single player, a batch, a team, two sides and a reward of two numbers. It also works in "
        "the worlds of this lesson: try `play(envs[name])` in a new cell."
    )


class _World(EnvBase):
    """Rewards that count up from 1 in every step, times a factor for each place of the reward."""

    def __init__(
        self, says: str, rewards: Mapping[Any, tuple[int, ...]], end: int, batch: tuple[int, ...] = ()
    ) -> None:
        super().__init__(batch_size=batch)
        self.says, self.end, self.clock = says, end, 0
        self.shapes = {key: (*batch, *shape) for key, shape in rewards.items()}
        self.observation_spec = Composite(clock=Unbounded((*batch, 1)), shape=batch)
        self.action_spec = Categorical(2, shape=batch)
        spec = Composite(shape=batch)
        for key, shape in self.shapes.items():
            spec[key] = Unbounded(shape)
        self.reward_spec = spec

    def factors(self, key: Any) -> torch.Tensor:
        """How much each place of a reward gets, all different."""
        shape = self.shapes[key]
        return torch.arange(1.0, 1 + int(np.prod(shape))).reshape(shape) * 10 ** list(self.shapes).index(key)

    def _data(self) -> TensorDict:
        return TensorDict({"clock": torch.full((*self.batch_size, 1), float(self.clock))}, self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self.clock = 0
        return self._data()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.clock += 1
        data = self._data().set("done", torch.full((*self.batch_size, 1), self.clock == self.end))
        for key in self.shapes:
            data.set(key, self.factors(key) * self.clock)
        return data

    def _set_seed(self, seed: int | None) -> None:
        pass


_TEAM = ("team", "reward")
_WORLDS = (
    _World("one game of one player", {"reward": (1,)}, end=12),
    _World("a game that goes on for a thousand steps", {"reward": (1,)}, end=1000),
    _World("a batch of four games", {"reward": (1,)}, end=20, batch=(4,)),
    _World("a team of three agents", {_TEAM: (3, 1)}, end=12),
    _World("two games of a team of three agents", {_TEAM: (3, 1)}, end=15, batch=(2,)),
    _World("a game of two sides", {("left", "reward"): (1, 1), ("right", "reward"): (2, 1)}, end=14),
    _World("a game whose reward is a vector of two numbers", {"reward": (2,)}, end=12),
)


def _asked(play: Callable[..., Any], world: _World) -> Mapping[Any, torch.Tensor]:
    """Ask for the returns of a world, and look at their keys and shapes."""
    keys = ", ".join(f"`{key}`" for key in world.shapes)
    try:
        got = ask(play, world, may_change=True)
    except KeyError:
        where = 'Rewards are under "next".' if list(world.shapes) == ["reward"] else "It read another key."
        fail(f"The world of {world.says} has the reward keys {keys}. {where}")
    require(isinstance(got, Mapping), f"Expected a dictionary, got {kind_of(got)}.")
    for key, shape in world.shapes.items():
        require(key in got, f"Expected a return for `{key}` in {world.says}, got only {list(got)}.")
        value = got[key]
        require(isinstance(value, torch.Tensor), f"Expected the return to be a tensor, got {kind_of(value)}.")
        if tuple(value.shape) != shape:
            _say_shape(world, value, shape)
    return got


def _say_shape(world: _World, value: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Say why a return has another shape than the reward of a step."""
    said = f"In {world.says}, expected a return of shape {list(shape)}, got {list(value.shape)}. "
    if len(value.shape) == 0 and shape != (1,):
        fail(f"{said}Keep one return for each copy, agent and component.")
    if world.batch_size and value.ndim == len(shape) and value.shape[0] != shape[0]:
        fail(f"{said}Time comes after the batch dimensions.")
    if shape == (2,) and tuple(value.shape) == (1,):
        fail(f"{said}The components of the vector are rewards for different things.")
    fail(f"{said}" + ("Keep one return for each." if value.ndim == 0 else "Which dimension is time?"))


def _compare(world: _World, got: Mapping[Any, torch.Tensor]) -> None:
    """Name the mistake that a return comes from, if it is a known one."""
    steps = min(world.end, _MOST)
    for key in world.shapes:
        value, factors = got[key].float(), world.factors(key)
        total = steps * (steps + 1) / 2
        if torch.allclose(value, factors * total):
            continue
        ratio = (value / factors).flatten()[0].item()
        said = f"In {world.says} the return of `{key}` is {value.flatten().tolist()}. "
        if ratio == steps:
            fail(f"{said}That is only the last reward.")
        if ratio == (steps + 1) / 2:
            fail(f"{said}That is a mean over time, but a return is a sum.")
        if world.end < _MOST and ratio > total:
            fail(f"{said}It continues after the end of the episode.")
        if ratio > total:
            fail(f"{said}It plays more than {_MOST} steps.")
        if bool((value / factors == ratio).all()):
            fail(f"{said}It stops too early: the episode has {steps} steps.")
        fail(f"{said}The rewards are {factors.flatten().tolist()} times 1, 2, 3 and so on, for {steps} steps.")


SETUP = """
import torch
from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import GymLikeEnv
"""
_NO_OUTPUT = "..."
_OUTPUT = "return self.look(reading), -reading.effort, reading.landed, reading.evening, None, {}"
KITE_STUB = f'''\
class KiteWrapper(GymLikeEnv):
    """Wraps a Kite. The action is the pull, from 0 to 1."""

    def _make_specs(self, env):
        self.observation_spec = Composite(
            height=Unbounded(shape=(1,)), gust=Categorical(2, shape=(1,))
        )
        self.action_spec = Bounded(0.0, 1.0, shape=(1,))

    def _reset_output_transform(self, reading):
        return self.look(reading), {{}}

    def _output_transform(self, reading):
        # the six: observation, reward, terminated, truncated, done, a dictionary of the rest
        {_NO_OUTPUT}

    def look(self, reading):
        return {{"height": [reading.height], "gust": [reading.gust]}}

    def _set_seed(self, seed):
        self._env.wind = np.random.default_rng(seed)
'''
KITE = KITE_STUB.replace(_NO_OUTPUT, _OUTPUT)
SETUP += "import numpy as np\n"


@exercise(
    title="The core of a wrapper",
    prompt="""
        Write `_output_transform` of `KiteWrapper`. It takes the `Reading` that `Kite.step` returned, and returns six
        values: observation, reward, terminated, truncated, done, and a dictionary of further information. The effort is
        a cost. A kite that has landed does not fly again, while the evening only stops a flight that could go on: which
        of the two is *terminated*? If you return `None` for done, it is the union of the two.
    """,
    stub=KITE_STUB,
    hints=[
        "`self.look(reading)` is the observation, as after a reset. The dictionary may be empty.",
        "After a terminated end there are no more rewards. A truncated end only stops the recording: the kite is "
        "still in the air.",
        "`-reading.effort` is the reward, `reading.landed` is terminated, `reading.evening` is truncated.",
    ],
    solution=KITE,
    wrong=[
        instead(KITE, of="reading.landed, reading.evening", put="reading.evening, reading.landed", says="swapped"),
        instead(
            KITE,
            of="reading.landed, reading.evening",
            put="reading.landed or reading.evening, False",
            says="The evening is not a landing",
        ),
        instead(
            KITE,
            of="reading.landed, reading.evening, None",
            put="False, False, reading.landed or reading.evening",
            says="say done, but neither",
        ),
        instead(
            KITE, of="reading.landed, reading.evening", put="reading.landed, False", says="does not end the episode"
        ),
        instead(KITE, of="reading.landed, reading.evening", put="False, reading.evening", says="a landing does not"),
        instead(
            KITE,
            of="reading.evening, None",
            put="reading.evening and not reading.landed, None",
            says="in the last minute",
        ),
        instead(KITE, of="-reading.effort", put="reading.effort", says="The effort is a cost"),
        instead(KITE, of="-reading.effort", put="reading.height", says="The reward is"),
        instead(KITE, of="self.look(reading), -r", put="self.look(self._env.reset()), -r", says="the height"),
        instead(KITE, of=", None, {}", put="", says="Expected six values, got 4"),
        instead(KITE, of=_OUTPUT, put=f"print({_OUTPUT[7:]})", says="got `None`"),
    ],
    accepted=[
        KITE.replace(", None, {}", ', reading.landed or reading.evening, {"gust": reading.gust}'),
    ],
    setup=SETUP,
)
def kite(KiteWrapper: Any) -> Outcome:
    """Fly kites that land, that see the evening, and one that lands in the last minute; compare with the readings."""
    what = "Expected a subclass of `GymLikeEnv`."
    require(isinstance(KiteWrapper, type) and issubclass(KiteWrapper, GymLikeEnv), what)
    for pull, minutes in ((0.0, 30), (0.9, 8), (0.0, _until_landing())):
        _fly(KiteWrapper, pull, minutes)
    env = KiteWrapper(Kite(minutes=12))
    check_env_specs(env, seed=0)
    env.set_seed(1)
    player = RolloutPlayer(env.rollout(40, break_when_any_done=False), strips=["height", "gust", "action"])
    return right("`check_env_specs` has no complaints. Which of these episodes end with a landing?", player)


def _until_landing() -> int:
    """How many minutes a kite stays in the air if nobody holds it."""
    kite = Kite(seed=1)
    kite.reset()
    return next(minute for minute in range(1, 100) if kite.step([0.0]).landed)


def _fly(wrapper: Any, pull: float, minutes: int) -> None:
    """Step a wrapped kite and another one in the same wind, and compare them."""
    env, other = wrapper(Kite(seed=1, minutes=minutes)), Kite(seed=1, minutes=minutes)
    td_, _ = env.reset(), other.reset()
    for minute in range(1, minutes + 1):
        reading = other.step([pull])
        raw = ask(env._output_transform, reading)
        require(isinstance(raw, tuple), f"Expected a tuple of six values, got {kind_of(raw)}.")
        require(len(raw) == 6, f"Expected six values, got {len(raw)}.")
        td = env.step(td_.set("action", torch.tensor([pull])))["next"]
        _judge(td, reading, f"After minute {minute} of {minutes}")
        if reading.landed or reading.evening:
            return
        td_ = td.exclude("reward")


def _judge(td: TensorDictBase, reading: Any, when: str) -> None:
    """Compare the data of a step with what the simulator reported."""
    height, reward = td["height"].item(), td["reward"].item()
    require(
        abs(height - reading.height) < 1e-4,
        f"{when}, the kite is at {reading.height:g} m, but the height in the data is {height:g}.",
    )
    if abs(reward + reading.effort) > 1e-4:
        what = " The effort is a cost." if abs(reward - reading.effort) < 1e-4 else ""
        fail(f"{when}, the effort is {reading.effort:g}. The reward is {reward:g}.{what}")
    landed, evening = reading.landed, reading.evening
    terminated, truncated = td["terminated"].item(), td["truncated"].item()
    if (terminated, truncated) == (landed, evening):
        return
    if landed and evening:
        fail(
            f"{when}, it has landed, in the last minute. Both are true, but the data say terminated: {terminated}, "
            f"truncated: {truncated}. Let learners decide which of them counts."
        )
    said = f"{when} it has {'landed' if landed else 'not landed'}, and it is {'' if evening else 'not '}evening. "
    if landed and truncated and not terminated:
        fail(f"{said}The data say the opposite: the two are swapped.")
    if evening and terminated:
        fail(f"{said}The data say terminated. The evening is not a landing: the kite is still in the air.")
    if td["done"].item():
        fail(f"{said}The data say done, but neither terminated nor truncated.")
    fail(
        f"{said}In the data, a landing does not end it."
        if landed
        else f"{said}In the data, that does not end the episode."
    )
