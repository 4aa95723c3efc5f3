"""SpreadEnv in given states, moved by indices."""

from __future__ import annotations

import torch

from rlnb.envs import SpreadEnv


def state_of(agents, landmarks):
    covered = [place in agents for place in landmarks]
    rows = [(*place, 0) for place in agents] + [
        (*place, int(mark)) for place, mark in zip(landmarks, covered, strict=True)
    ]
    return torch.tensor(rows)


def index_env(n, size, agents=None, landmarks=None, **options):
    """An env of indices, and its first data in a state."""
    env = SpreadEnv(n, size, categorical_action_encoding=True, seed=0, **options)
    return env, env.reset(**({} if agents is None else {"state": state_of(agents, landmarks)}))


def act(env, td, *actions):
    td.pop("done", None)  # who does not know that an episode is over may step
    return env.step(td.set(("agents", "action"), torch.tensor(actions)))["next"]
