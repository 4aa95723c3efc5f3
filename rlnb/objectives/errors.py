"""Texts of errors that several losses and value estimators raise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey

#: Who writes an entry that a loss reads, by the name of the key.
WRITERS = {
    "advantage": "a value estimator writes it. Fix: run GAE first, "
    "GAE(gamma=0.99, lmbda=0.95, value_network=critic)(data)",
    "value_target": "a value estimator writes it. Fix: run GAE first, "
    "GAE(gamma=0.99, lmbda=0.95, value_network=critic)(data)",
    "value": "the value network writes it. Fix: pass value_network=critic, "
    "or set_keys(value=...) if the value has another key",
    "sample_log_prob": "the policy writes it while data is collected. Fix: make the policy with return_log_prob=True, "
    "or name its key: set_keys(sample_log_prob=...)",
    "input": "a network of it reads it. Fix: give the network in_keys that the data has, or add the entry",
    "action": "the policy writes it while data is collected. Fix: set_keys(action=...) if it has another key",
    "reward": "the env writes it under 'next'. Fix: set_keys(reward=...) if it has another key",
    "done": "the env writes it under 'next'. Fix: set_keys(done=...) if it has another key",
    "terminated": "the env writes it under 'next'. Fix: set_keys(terminated=...) if it has another key",
}


#: What to write instead of an argument that a loss does not have.
_INSTEAD = {
    "advantage_norm": "normalize_advantage=True in the losses of PPO, or GAE(average_gae=True, ...)",
    "delay_actor": "leave it out; the policy is compared with the one that collected the data",
    "delay_value": "leave it out; the value estimator uses the critic itself",
    "entropy_bonus": "A2CLoss, which has one",
    "entropy_coeff": "A2CLoss, which has one",
    "critic_coeff": "A2CLoss, which has one",
    "max_importance_ratio": "leave it out; clip_epsilon of ClipPPOLoss limits what a large ratio counts",
}


def missing_entry(owner: object, key: NestedKey, role: str, data: TensorDictBase) -> str:
    """Text for an entry that is not in the data.

    Args:
        owner: the loss or the estimator that reads it.
        key: its key.
        role: its name among the ``tensor_keys``.
        data: the data.
    """
    writer = WRITERS.get(role, f"Fix: set_keys({role}=...) if it has another key")
    return f"{type(owner).__name__} needs the entry {key!r}; {writer}. The data has {listed_keys(data)}."


def listed_keys(data: TensorDictBase) -> str:
    """List the keys of data in a text."""
    return ", ".join(repr(key) for key in sorted(data.keys(True, True), key=str)) or "no entries"


def unknown_key_name(owner: object, name: str, known: Iterable[str]) -> str:
    """Text for a name that ``set_keys`` does not know."""
    return (
        f"{type(owner).__name__}.set_keys knows no key {name!r}. Fix: one of {', '.join(sorted(known))}, "
        "each with the key of an entry as its value."
    )


def unknown_argument(owner: object, name: str) -> str:
    """Text for an argument that a loss does not have, or that programs for old versions of TorchRL give it."""
    text = f"{type(owner).__name__} has no argument {name!r}."
    if name in _INSTEAD:
        return f"{text} Fix: {_INSTEAD[name]}."
    if name.endswith("_coef"):
        return f"{text} Fix: {name}f=..."
    if name.endswith("_key"):
        return f"{text} Fix: loss.set_keys({name.removesuffix('_key')}=...) after the loss is made."
    return text


def unknown_choice(name: str, got: Any, legal: Iterable[str]) -> str:
    """Text for a value that is not one of a few legal strings."""
    return f"{name} must be one of {', '.join(map(repr, legal))}, and got {got!r}."
