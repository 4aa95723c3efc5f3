"""Error messages that several modules of batched environments share."""

from __future__ import annotations

from typing import Any


def not_an_env_function(fn: Any) -> str:
    """Describe a ``create_env_fn`` that cannot be called."""
    got = f"an env of type {type(fn).__name__}" if hasattr(fn, "rollout") else repr(fn)
    return (
        f"create_env_fn must be a function that makes an env, got {got}. A batch makes each of its envs anew. "
        "Fix: SerialEnv(4, lambda: GymEnv('CartPole-v1'))."
    )


def wrong_return(function: str, made: Any) -> str:
    """Describe a function that has returned something else than an env."""
    return (
        f"{function} must return an env of rlnb, got a {type(made).__name__}. "
        "Fix: return GymEnv(...), GymWrapper(env) or another EnvBase."
    )


def closed_by_another_thread(what: str) -> str:
    """Describe a batch that another thread has closed."""
    return (
        f"The ParallelEnv was closed by another thread in the middle of {what}. env.reset() starts new workers. "
        "Fix: join the threads that use an env before env.close()."
    )
