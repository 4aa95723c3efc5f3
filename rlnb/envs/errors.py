"""Error texts that several modules of environments share: what was expected, what was given, and how to fix it."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys


def not_reset(env: Any) -> str:
    """Error text for an env that is stepped before its first reset."""
    return (
        f"step was called before reset: {env!r} has no state to step from. "
        "Fix: td = env.reset(), then write an action into td, then env.step(td)."
    )


def no_action(key: NestedKey, tensordict: TensorDictBase) -> str:
    """Error text for a step without an action."""
    keys = sorted(map(str, tensordict.keys()))
    return (
        f"step needs the action {key!r}, and the TensorDict has {keys}. "
        f"Fix: td = env.rand_action(td), or td[{key!r}] = ..., before env.step(td)."
    )


def no_tensordict(what: str, given: Any) -> str:
    """Error text for an argument that must be a TensorDict and is not."""
    article = "an" if type(given).__name__[0] in "aeioAEIO" else "a"
    text = f"{what} takes a TensorDict and got {article} {type(given).__name__}. "
    if isinstance(given, dict):
        return text + "Fix: TensorDict(your_dict, batch_size=[])."
    if what == "step":
        return text + "An action is an entry of it. Fix: td = env.reset(); td['action'] = ...; td = env.step(td)."
    return text + "See env.reset()."


def policy_name(policy: Any) -> str:
    """Name of a policy in error texts: of its class for a module, else of the function."""
    return type(policy).__name__ if isinstance(policy, torch.nn.Module) else getattr(policy, "__name__", repr(policy))


def policy_returned(policy: Any, result: Any) -> TypeError:
    """Error for a policy over TensorDicts that returns something else."""
    if result is None:
        return TypeError(
            f"The policy {policy_name(policy)} returned None and wrote no action. Likely cause: it lacks a return. "
            "Fix: return td, after td['action'] = ...; a function of the observation returns the action."
        )
    return TypeError(
        f"The policy {policy_name(policy)} takes a TensorDict and must return one, and it returned a "
        f"{type(result).__name__}. Fix: return the TensorDict that it wrote the action to."
    )


def policy_wrote_no_action(policy: Any, missing: list[NestedKey], before: set[Any], after: TensorDictBase) -> KeyError:
    """Error for a policy that does not write the action."""
    wrote = [key for key in leaf_keys(after) if key not in before]
    said = f"it wrote {wrote}" if wrote else "it wrote nothing new"
    keys = list(missing)
    return KeyError(
        f"The policy {policy_name(policy)} wrote no action: the env reads {keys}, and {said}. "
        f"Fix: let the policy write {keys[0]!r}, for example TensorDictModule(net, ['observation'], [{keys[0]!r}])."
    )


def not_an_env_function(fn: Any) -> str:
    """Describe a ``create_env_fn`` that cannot be called."""
    got = f"an env of type {type(fn).__name__}" if hasattr(fn, "rollout") else repr(fn)
    return (
        f"create_env_fn must be a function that makes an env, got {got}. It is called once for each env of the batch. "
        "Fix: SerialEnv(4, lambda: GymEnv('CartPole-v1'))."
    )


def wrong_return(function: str, made: Any) -> str:
    """Describe a function that has returned something else than an env."""
    return (
        f"{function} must return an env of rlnb, got a {type(made).__name__}. "
        "Fix: return GymEnv(...), GymWrapper(env) or another EnvBase."
    )


def closed_by_another_thread(
    what: str,
    owner: str = "ParallelEnv",
    start_anew: str = "env.reset() starts new",
    close: str = "an env before env.close()",
) -> str:
    """Describe an object with workers that another thread has closed."""
    return (
        f"The {owner} was closed by another thread in the middle of {what}. {start_anew} workers. "
        f"Fix: join the threads that use {close}."
    )
