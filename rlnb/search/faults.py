"""What a search says when an env, a mask, a network or a budget cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def not_searchable(env: Any, why: str) -> str:
    """Say that an env is neither stateless nor can be copied."""
    return (
        f"A search tries actions and takes them back. It needs an env that keeps no state (its step reads all from "
        f"the TensorDict, as TicTacToeEnv's does) or one that copy.deepcopy can copy, and this {type(env).__name__} "
        f"is neither: {why}\n"
        "Fix: search a single env in this process, such as GymEnv('CartPole-v1'), or give your env a __deepcopy__."
    )


def not_an_env(env: Any) -> str:
    """Say that something is no env."""
    return (
        f"A search takes an env or a Game, and got a {type(env).__name__}. "
        "Fix: MCTS(TicTacToeEnv()), or MCTS(GymWrapper(env)) for a Gymnasium env."
    )


def no_discrete_actions(env: Any, spec: Any) -> str:
    """Say that the actions of an env cannot be counted."""
    return (
        f"A search tries one action after the other, so there must be a number of them, and the action_spec of this "
        f"{type(env).__name__} is a {type(spec).__name__} of shape {tuple(getattr(spec, 'shape', ()))}. "
        "Fix: an env with a Categorical or OneHot action_spec of one action."
    )


def batched_env(env: Any) -> str:
    """Say that an env that keeps a state is batched."""
    return (
        f"This {type(env).__name__} keeps the states of a batch of {list(env.batch_size)} envs, and a search copies "
        "one episode at a time. Fix: an env without a batch_size, and a search for each."
    )


def one_root(env: Any, batch: Sequence[int]) -> str:
    """Say that there are several roots for an env that has one state."""
    return (
        f"reset got a TensorDict of batch size {list(batch)}, and this {type(env).__name__} keeps one state, which is "
        "the only root that it can be searched from. Fix: search.reset(td) with what env.reset() or env.step() "
        "returned last."
    )


def ended(where: int) -> str:
    """Say that a root is the end of an episode."""
    return (
        f'The episode of root {where} has ended ("done" is True), so there is nothing to search. '
        "Fix: search.reset(env.reset())."
    )


def no_roots() -> str:
    """Say that a search has no roots yet."""
    return "The search has no root. Fix: search.reset(td) with what env.reset() or env.step() returned, then run."


def over() -> str:
    """Say that all roots are ends of episodes."""
    return "All roots are ends of episodes, so there is nothing to search. Fix: search.reset(td) with a new episode."


def solved() -> str:
    """Say that all roots are proven."""
    return (
        "Every root is proven, so no simulation can find out more. Fix: play search.best_action, advance, or make the "
        "search with solver=False."
    )


def noisy_gumbel() -> str:
    """Say that Gumbel and a single random rollout do not go together."""
    return (
        "Gumbel drops half of the actions after a few visits, so it needs values that it can trust, and a single "
        "random rollout is no such value: more simulations do not make the play better. "
        "Fix: MCTS(..., evaluation=Network(module)) or RandomRollout(rollouts=16), or rule=UCB1()."
    )


def no_legal(where: int, at: str) -> str:
    """Say that a position has no legal action."""
    return (
        f"The mask of {at} {where} has no legal action, and the episode has not ended there. A search needs an action "
        'to try. Fix: in the env, set "done" where no action is left, or leave one open in the mask.'
    )


def budget(simulations: Any, seconds: Any) -> str:
    """Say that a budget is none."""
    return (
        f"run takes a budget: simulations, a positive integer, or seconds, a positive number, or both; it got "
        f"simulations={simulations!r}, seconds={seconds!r}. Fix: search.run(simulations=100)."
    )


def network_shape(name: str, found: Any, want: Sequence[int], meaning: str) -> str:
    """Say that a network's output has another shape than what is wanted."""
    shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
    return (
        f"The network's {name} is of shape {shape}, and {meaning} is wanted: {tuple(want)}. "
        f"It was given {want[0]} positions at once, so its first dimension is the batch. "
        f"Fix: let the network return {name} of shape [batch{', actions' if len(want) == 2 else ''}]."
    )


def network_nan(name: str, bad: Any, legal_only: bool = False) -> str:
    """Say that a network's output is not finite."""
    where = int(np.argwhere(bad)[0][0])
    what = " for a legal action" if legal_only else ""
    return (
        f"The network's {name} has a value that is NaN or infinite{what}, first in position {where} of the batch. "
        "The tree was left as it was. Likely cause: the network diverged in training (look at its loss, or lower the "
        "learning rate), or its input is not finite."
    )


def network_result(found: Any) -> str:
    """Say that a network returned something else than logits and values."""
    keys = f" with the entries {sorted(map(str, found.keys()))}" if hasattr(found, "keys") else ""
    return (
        f"The network returned a {type(found).__name__}{keys}. It is wanted to return the pair (logits, value), or a "
        'TensorDict with "logits" and "state_value". '
        "Fix: Network(module, logits_key=..., value_key=...) names other entries."
    )


def nothing_to_undo() -> str:
    """Say that no simulation is recorded that could be taken back."""
    return (
        "There is no recorded simulation to take back: the search is at its first one, or the simulations were run "
        "without a record. Fix: search.step(), or search.run(..., record=True), records them."
    )


def illegal_action(tree: int, action: Any, legal: Any) -> str:
    """Say that a root cannot advance by an action."""
    return (
        f"advance got the action {action} for tree {tree}, and the legal actions of its root are "
        f"{np.flatnonzero(legal).tolist()}."
    )
