"""Times rollouts of wrapped libraries and, by turns, the libraries' own loops; prints JSON."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

import numpy as np
import torch

STEPS = 1000
SECONDS = 2.0  # that a case is tried at least, in each of several runs
SPREAD, ROCKS = "PettingZoo, simple_spread (parallel)", "PettingZoo, rock-paper-scissors (parallel)"
TIC_TAC_TOE = "PettingZoo, tic-tac-toe (AEC)"
CHEETAH, SWINGUP = "dm_control, cheetah run", "dm_control, cartpole swingup"
TREASURE, SPIEL, BALANCE = "mo-gymnasium, deep-sea-treasure", "OpenSpiel, tic-tac-toe", "VMAS, balance (batch 32)"


def own_loops() -> dict[str, dict[str, Callable[[], object]]]:
    """The loops of each library: with actions drawn ahead, and as its documentation shows it, which draws each one.

    Drawing is no part of a wrapper, and all rollouts do it.
    """
    spread, rocks = parallel_envs().values()
    loops: dict[str, Callable[[bool], Callable[[], object]]] = {
        CHEETAH: lambda ahead: dm_control_loop("cheetah", "run", ahead),
        SWINGUP: lambda ahead: dm_control_loop("cartpole", "swingup", ahead),
        SPREAD: lambda ahead: parallel_loop(spread, ahead),
        ROCKS: lambda ahead: parallel_loop(rocks, ahead),
        TREASURE: mo_gymnasium_loop,
    }
    alone = {TIC_TAC_TOE: aec_loop(), SPIEL: open_spiel_loop(), BALANCE: vmas_loop()}
    found = {key: {"drawn ahead": loop(True), "own loop": loop(False)} for key, loop in loops.items()}
    return found | {key: {"own loop": loop} for key, loop in alone.items()}


def dm_control_loop(domain: str, task: str, ahead: bool) -> Callable[[], object]:
    from dm_control import suite

    env = suite.load(domain, task)
    spec = env.action_spec()

    def draw() -> np.ndarray:
        return np.random.uniform(spec.minimum, spec.maximum, size=spec.shape)

    actions = [draw() for _ in range(STEPS)]

    def loop() -> None:
        env.reset()
        for action in actions:
            if env.step(action if ahead else draw()).last():
                env.reset()

    return loop


def parallel_envs() -> dict[str, Any]:
    from mpe2 import simple_spread_v3
    from pettingzoo.classic import rps_v2

    return {SPREAD: simple_spread_v3.parallel_env(), ROCKS: rps_v2.parallel_env()}


def parallel_loop(env: Any, ahead: bool) -> Callable[[], object]:
    env.reset()

    def draw() -> dict[str, Any]:
        return {agent: env.action_space(agent).sample() for agent in env.agents}

    actions = [draw() for _ in range(STEPS)]

    def loop() -> None:
        env.reset()
        for action in actions:
            env.step(action if ahead else draw())
            if not env.agents:
                env.reset()

    return loop


def aec_loop() -> Callable[[], object]:
    """Each player observes each position, as in a rollout; PettingZoo's own loop shows it to one of them."""
    from pettingzoo.classic import tictactoe_v3

    env = tictactoe_v3.env()
    draws = np.random.default_rng(0).random(STEPS)

    def loop() -> None:
        env.reset()
        for draw in draws:
            legal = env.last()[0]["action_mask"].nonzero()[0]
            env.step(legal[int(draw * len(legal))])
            for agent in env.agents:
                env.observe(agent)
            _, _, terminated, truncated, _ = env.last(observe=False)
            if terminated or truncated:
                env.reset()

    return loop


def mo_gymnasium_loop(ahead: bool) -> Callable[[], object]:
    import mo_gymnasium

    env = mo_gymnasium.make("deep-sea-treasure-v0")
    actions = [env.action_space.sample() for _ in range(STEPS)]

    def loop() -> None:
        env.reset()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action if ahead else env.action_space.sample())
            if terminated or truncated:
                env.reset()

    return loop


def open_spiel_loop() -> Callable[[], object]:
    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")
    draws = np.random.default_rng(0).random(STEPS)

    def loop() -> None:
        state = game.new_initial_state()
        for draw in draws:
            legal = state.legal_actions()
            state.apply_action(legal[int(draw * len(legal))])
            for player in range(2):
                state.observation_tensor(player)
            state.rewards()
            if state.is_terminal():
                state = game.new_initial_state()

    return loop


def vmas_loop() -> Callable[[], object]:
    import vmas

    env = vmas.make_env("balance", num_envs=32, seed=0)
    torch.manual_seed(0)
    draws = [[torch.rand(32, 2) * 2 - 1 for _ in env.agents] for _ in range(100)]

    @torch.inference_mode()  # as in VmasEnv: without it VMAS takes nearly twice as long
    def loop() -> None:
        env.reset()
        for actions in itertools.islice(itertools.cycle(draws), STEPS):
            done = env.step(actions)[2]
            if done.any():
                for i in done.nonzero().flatten().tolist():
                    env.reset_at(i)

    return loop


def rollouts(library: str) -> dict[str, Callable[[], object]]:
    """Rollouts with random actions, of rlnb or torchrl."""
    from pettingzoo.classic import tictactoe_v3

    envs: Any = importlib.import_module(f"{library}.envs")
    made = {
        CHEETAH: envs.DMControlEnv("cheetah", "run"),
        SWINGUP: envs.DMControlEnv("cartpole", "swingup"),
        **{key: envs.PettingZooWrapper(env) for key, env in parallel_envs().items()},
        TIC_TAC_TOE: envs.PettingZooWrapper(tictactoe_v3.env(), use_mask=True),
        BALANCE: envs.VmasEnv("balance", num_envs=32, seed=0),
    }
    if library == "rlnb":
        made |= {TREASURE: envs.MOGymEnv("deep-sea-treasure-v0"), SPIEL: envs.OpenSpielEnv("tic_tac_toe")}
    return {key: lambda env=env: env.rollout(STEPS, break_when_any_done=False) for key, env in made.items()}


def main() -> None:
    """Print the best seconds per step of each case and, for rlnb, of the library's own loops, as "..., own loop".

    They take turns for some seconds, since clock speeds drift by more than a wrapper costs.
    """
    library, rounds = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    own = own_loops() if library == "rlnb" else {}
    best: dict[str, float] = {}
    for key, run in rollouts(library).items():
        cases = {key: run, **{f"{key}, {name}": loop for name, loop in own.get(key, {}).items()}}
        for case in cases.values():
            case()  # warms up
        began, done = time.perf_counter(), 0
        while done < rounds or time.perf_counter() - began < SECONDS:
            for name, case in cases.items():
                start = time.perf_counter()
                case()
                best[name] = min(time.perf_counter() - start, best.get(name, math.inf))
            done += 1
    print(json.dumps({name: seconds / STEPS for name, seconds in best.items()}))


if __name__ == "__main__":
    main()
