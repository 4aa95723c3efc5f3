"""Exercise of the welcome: a policy for the cart pole that looks at where the pole is going."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer

from rlnb.envs import GymEnv

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .verdict import Outcome

WANTED_STEPS = 300
MAX_STEPS = 500
EPISODES = 10

# [position, velocity, angle, angular velocity]
Pair = tuple[tuple[float, ...], tuple[float, ...]]
FALLS: Pair = ((0.0, 0.0, 0.1, 1.0), (0.0, 0.0, -0.1, -1.0))  # to the right, to the left
SWINGS_BACK: Pair = ((0.0, 0.0, 0.02, -1.0), (0.0, 0.0, -0.02, 1.0))  # leans right, leans left, and moves the other way
# The pole falls, and the cart is somewhere, and moves: left, right.
ELSEWHERE: Pair = ((-1.5, -1.0, 0.1, 1.0), (1.5, 1.0, 0.1, 1.0))
LEANS: Pair = ((0.0, 0.0, 0.15, -0.01), (0.0, 0.0, -0.15, 0.01))  # far to the right, to the left, and hardly moves


def _wrong(*lines: str, says: str) -> WrongAnswer:
    """A policy with these lines below one that names the numbers."""
    head = ["def steady(observation):", "position, velocity, angle, angular_velocity = observation"]
    return WrongAnswer("\n    ".join([*head, *lines]), says=says)


@exercise(
    title="A steadier hand",
    prompt=f"""
        Write `steady(observation)`, a policy that looks at the angular velocity too, so that it pushes *before* the
        pole leans. Over {EPISODES} episodes of {MAX_STEPS} steps at most, the pole should stand for more than
        {WANTED_STEPS} steps on average.

        The cell below the stub checks it. Run it before you write anything, to see what a check looks like.
        When your policy is good enough, the check plays one of its episodes.
    """,
    stub="""
        def steady(observation):
            # observation[2] is the angle of the pole, observation[3] its angular velocity
            ...
    """,
    hints=[
        "The pole leans a little to the right, and swings back to the left, fast. Where will it be in a moment?",
        "The angle a moment from now is about `angle + angular_velocity * dt`, with some small time `dt`.",
        "Push to the side on which the pole is about to be. A `dt` between 0.1 and 1 second works.",
    ],
    solution="""
        def steady(observation):
            angle_soon = observation[2] + 0.5 * observation[3]
            return 1 if angle_soon > 0 else 0
    """,
    wrong=[
        _wrong("return 1 if angle > 0 else 0", says="still pushes right, as `lean` does"),
        _wrong("return 1 if angular_velocity > 0 else 0", says="does not look at the angle"),
        _wrong("return 1 if angle + angular_velocity < 0 else 0", says="away from the side"),
        _wrong("return 1", says="whatever it sees"),
        _wrong("return 1 if position > 0 else 0", says="looks at where the cart is or goes, and not at the pole"),
        _wrong("return 1 if angle + 0.5 * angular_velocity + position > 0 else 0", says="depends on where the cart"),
        _wrong("return 1 if angle + angular_velocity > 0 else -1", says="It chose -1"),
        _wrong("return angle + angular_velocity", says="of type float"),
        _wrong("if angle + angular_velocity > 0:", "    return 1", says="It gave `None`"),
        _wrong("return 'right' if angle + angular_velocity > 0 else 'left'", says="a `str`"),
        _wrong("return 1 if angle + angular_velocity + 5 * velocity > 0 else 0", says="depends on where the cart"),
        _wrong("return 1 if 20 * angle + angular_velocity - 0.5 > 0 else 0", says="steps on average"),
    ],
    accepted=[
        "import numpy as np\n\ndef steady(observation): return np.int64(observation[2] + 0.5 * observation[3] > 0)",
        "import numpy as np\n\ndef steady(observation): return np.bool_(observation[2] + 0.5 * observation[3] > 0)",
        "def steady(observation): return observation[2] + 0.5 * observation[3] > 0",
        "def steady(observation): return (observation[2:3] + 0.5 * observation[3:]> 0).long()",
        "steady = lambda observation: int(observation[2] + observation[3] > 0)",
    ],
    seconds=60.0,
)
def steady(steady: Callable[[torch.Tensor], Any]) -> Outcome:
    """Look at single choices first, for they say what is wrong, and then at whole episodes."""
    choices = {seen: _choice(steady, seen) for seen in (*FALLS, *SWINGS_BACK, *LEANS, *ELSEWHERE)}
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(0)
    episodes = [env.rollout(MAX_STEPS, lambda observation: _action(steady, observation)) for _ in range(EPISODES)]
    shortest = min(episodes, key=len)
    average = sum(map(len, episodes)) / EPISODES
    said = f"It stands for {average:.0f} steps on average. "
    if average > WANTED_STEPS:
        return right(said + "Below is the shortest of its episodes.", RolloutPlayer(shortest, env))
    player = RolloutPlayer(shortest, env)
    _explain(choices, said, player)
    fail(f"{said}Expected more than {WANTED_STEPS}. The shortest one is below: watch how it ends.", player)


def _choice(policy: Callable[[torch.Tensor], Any], seen: tuple[float, ...]) -> int:
    """What a policy does about an observation that was made up."""
    return _action(policy, torch.tensor(seen))


def _action(policy: Callable[[torch.Tensor], Any], observation: torch.Tensor) -> int:
    """What a policy does about an observation, once it is known to be an action; a flag or one number will do."""
    action = ask(policy, observation)
    where = f"for the observation {[round(number, 3) for number in observation.tolist()]}"
    require(action is not None, f"It gave `None` {where}. Does every way through the function end in a `return`?")
    value = action
    if isinstance(action, torch.Tensor):
        require(action.numel() == 1, f"It gave a tensor of {action.numel()} numbers {where}. An action is one number.")
        value = action.item()
    legal = "The actions are the integers 0 (push to the left) and 1 (push to the right)."
    require(isinstance(value, int | float), f"It gave {kind_of(value)} {where}. {legal}")
    require(not isinstance(value, float), f"It gave {value:.3g}, a number of type float, {where}. {legal}")
    require(value in (0, 1), f"It chose {value} {where}. {legal}")
    return int(value)


def _explain(choices: dict[tuple[float, ...], int], said: str, player: RolloutPlayer) -> None:
    """Name the mistake that the choices show, if they show a known one."""
    probes = (FALLS, SWINGS_BACK, LEANS, ELSEWHERE)
    falls, swings_back, leans, elsewhere = ([choices[seen] for seen in pair] for pair in probes)
    if len(set(choices.values())) == 1:
        fail(f"{said}It chooses {falls[0]}, whatever it sees.", player)
    if len({*falls, *swings_back, *leans}) == 1:
        fail(f"{said}It looks at where the cart is or goes, and not at the pole, which falls.", player)
    if falls == [0, 1]:
        fail(f"{said}It pushes away from the side to which the pole falls. What would you do with a broom?", player)
    if swings_back == [1, 0]:
        found = "Where the pole leans to the right and swings back fast, it still pushes right, as `lean` does."
        fail(said + found, player)
    if elsewhere[0] != elsewhere[1]:
        found = "Where the pole falls to the right, what it does depends on where the cart is or goes."
        fail(f"{said}{found} Who looks after the cart may not save the pole in time.", player)
    if leans == [0, 1]:
        found = "That is better than `lean`, but it does not look at the angle: a pole that leans far to the right and"
        fail(f"{said}{found} moves back very slowly gets no help.", player)
