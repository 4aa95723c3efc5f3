"""The formulas of the scores, each written once: for plain numbers, numpy arrays and torch tensors alike.

They use operators alone, so that a search over one tree, a search over many and a module compute the same thing.
"""

from __future__ import annotations

from typing import Any


def ucb1(value: Any, visits: Any, log_total: Any, c: float) -> Any:
    """Score actions by UCB1, ``value + c * sqrt(log(total) / visits)``.

    Source: P. Auer, N. Cesa-Bianchi and P. Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem", Machine
    Learning 47, 2002, figure 1; there ``c`` is the square root of 2.

    Args:
        value: mean return of each action.
        visits: how often each was taken, at least once.
        log_total: the logarithm of the visits of the node.
        c: how much is explored.

    Returns:
        The scores.

    Example:
        >>> round(ucb1(0.5, 4, 2.0, 1.0), 4)
        1.2071
    """
    return value + c * (log_total / visits) ** 0.5


def ucb1_tuned(value: Any, square: Any, visits: Any, log_total: Any, c: float = 2.0) -> Any:
    """Score actions by UCB1-Tuned, where an action whose returns vary little is explored less.

    Source: as for :func:`ucb1`, section 4.

    Args:
        value: mean return of each action, in [0, 1].
        square: mean square of the returns.
        visits: how often each was taken, at least once.
        log_total: the logarithm of the visits of the node.
        c: how much is added to the variance for what was not seen yet.

    Returns:
        The scores, ``value + sqrt(log(total) / visits * min(1/4, V))`` with
        ``V = square - value ** 2 + sqrt(c * log(total) / visits)``.

    Example:
        >>> round(ucb1_tuned(0.5, 0.25, 4, 2.0), 4), round(ucb1_tuned(0.5, 0.25, 400, 2.0), 4)
        (0.8536, 0.5224)
    """
    bound = log_total / visits
    variance = square - value * value + (c * bound) ** 0.5
    capped = variance.clip(0, 0.25) if hasattr(variance, "clip") else min(max(variance, 0.0), 0.25)
    return value + (bound * capped) ** 0.5


def puct(value: Any, visits: Any, root_total: Any, prior: Any, c: Any) -> Any:
    """Score actions by PUCT, ``value + c * prior * sqrt(total) / (1 + visits)``.

    Source: D. Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through
    self-play", Science 362, 2018, supplementary materials, "Search".

    Args:
        value: mean return of each action.
        visits: how often each was taken.
        root_total: the square root of the visits of the node.
        prior: the probability that a policy gives each.
        c: how much is explored.

    Returns:
        The scores.

    Example:
        >>> puct(0.5, 3, 4.0, 0.25, 2.0)
        1.0
    """
    return value + c * prior * root_total / (1 + visits)


def exp3(share: Any, count: Any, gamma: float) -> Any:
    """Mix the shares of the weights with a uniform choice, as EXP3 does: the probability of each action.

    Source: P. Auer, N. Cesa-Bianchi, Y. Freund and R. E. Schapire, "The Nonstochastic Multiarmed Bandit Problem",
    SIAM Journal on Computing 32(1), 2002, figure 1.

    Args:
        share: the weight of each action over the sum of the weights.
        count: how many actions there are.
        gamma: how much of the choice is uniform, from 0 to 1.

    Returns:
        The probabilities.

    Example:
        >>> exp3(0.75, 2, 0.5)
        0.625
    """
    return (1 - gamma) * share + gamma / count


__all__ = ["exp3", "puct", "ucb1", "ucb1_tuned"]
