"""One env of every kind, for tests that hold for all envs."""

from __future__ import annotations

from collections.abc import Callable

from rlnb.envs import CartPoleEnv, EnvBase, GridWorldEnv, GymEnv, PendulumEnv, SpreadEnv, StepCounter, TransformedEnv

KINDS: dict[str, Callable[[], EnvBase]] = {
    "gym": lambda: GymEnv("CartPole-v1"),
    "gym on a device": lambda: GymEnv("Pendulum-v1", device="cpu"),
    "indices": lambda: GymEnv("FrozenLake-v1", categorical_action_encoding=True),
    "vector": lambda: GymEnv("CartPole-v1", num_envs=3),
    "batch": lambda: CartPoleEnv(batch_size=[3], max_steps=9),
    "stateless": PendulumEnv,
    "masked": lambda: GridWorldEnv(action_mask=True, max_steps=12),
    "agents": lambda: SpreadEnv(2, 4, batch_size=[3], agent_done=True, max_steps=9),
    "transformed": lambda: TransformedEnv(GymEnv("Pendulum-v1"), StepCounter(max_steps=5)),
}


def make(kind: str, seed: int | None = 0) -> EnvBase:
    """Make an env of a kind, seeded unless told otherwise."""
    env = KINDS[kind]()
    if seed is not None:
        env.set_seed(seed)
    return env
