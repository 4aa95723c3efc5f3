"""The score formulas of tree search, each written once, for numbers, numpy arrays and torch tensors alike.

The search, the modules of :mod:`rlnb.modules.mcts.scores` and the widgets all compute their scores here. Apart from
:func:`softmax`, the functions use operators, :func:`log` and :func:`clip` alone, so that they also accept symbols: the
tree explorer calls them with symbols to write them in JavaScript for its page.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

#: Ranges of values below this are not stretched to [0, 1] by :func:`gumbel_stretched`.
CLOSE = 1e-8
#: Prior probabilities below this count as this, so that they have a logarithm.
TINY = float(np.finfo(np.float64).tiny)


def log(x: Any) -> Any:
    """Return the natural logarithm of a number, an array, a tensor or a symbol."""
    if isinstance(x, (int, float)):
        return math.log(x)
    return x.log() if hasattr(x, "log") else np.log(x)


def sqrt(x: Any) -> Any:
    """Return the square root of a number, an array, a tensor or a symbol."""
    return math.sqrt(x) if isinstance(x, (int, float)) else x**0.5


def clip(x: Any, low: float, high: float = math.inf) -> Any:
    """Limit a number, an array, a tensor or a symbol to a range."""
    return x.clip(low, high) if hasattr(x, "clip") else min(max(x, low), high)


def ucb1(value: Any, visits: Any, log_total: Any, c: Any) -> Any:
    """Score actions by UCB1, ``value + c * sqrt(log(total) / visits)``.

    ``value`` is the mean return of each action, ``log_total`` the logarithm of the visits of the node. Each action has
    at least one visit. Source: P. Auer, N. Cesa-Bianchi and P. Fischer, "Finite-time Analysis of the Multiarmed Bandit
    Problem", Machine Learning 47, 2002, figure 1; there ``c`` is the square root of 2.

    Example:
        >>> round(ucb1(0.5, 4, 2.0, 1.0), 4)
        1.2071
    """
    return value + c * (log_total / visits) ** 0.5


def ucb1_tuned_variance(value: Any, square: Any, visits: Any, log_total: Any, c: Any) -> Any:
    """Return an upper confidence bound of the variance, ``V``: ``square - value ** 2 + sqrt(c * log(total) / visits)``.

    The arguments are those of :func:`ucb1_tuned`.
    """
    return square - value * value + (c * (log_total / visits)) ** 0.5


def ucb1_tuned_capped(variance: Any) -> Any:
    """Cap a bound of the variance at 1/4, the greatest variance of returns in [0, 1]."""
    return clip(variance, 0, 0.25)


def ucb1_tuned(value: Any, square: Any, visits: Any, log_total: Any, c: Any = 2.0) -> Any:
    """Score actions by UCB1-Tuned, ``value + sqrt(log(total) / visits * min(1/4, V))``, :func:`ucb1_tuned_variance`.

    It explores actions less if their returns, in [0, 1], vary little: ``square`` is the mean of the squared returns,
    ``c`` the constant of the confidence term of the variance. Source and other arguments: see :func:`ucb1`; section 4.

    Example:
        >>> round(ucb1_tuned(0.5, 0.25, 4, 2.0), 4), round(ucb1_tuned(0.5, 0.25, 400, 2.0), 4)
        (0.8536, 0.5224)
    """
    capped = ucb1_tuned_capped(ucb1_tuned_variance(value, square, visits, log_total, c))
    return value + (log_total / visits * capped) ** 0.5


def puct_constant(total: Any, c: Any, base: Any) -> Any:
    """Return the exploration constant of PUCT with a ``base``, which grows with the visits of the node.

    The constant is ``c`` at the beginning, then ``c + log((total + base + 1) / base)``.
    """
    return c + log((total + base + 1) / base)


def puct(value: Any, visits: Any, root_total: Any, prior: Any, c: Any) -> Any:
    """Score actions by PUCT, ``value + c * prior * sqrt(total) / (1 + visits)``.

    ``value`` is the mean return of each action, ``root_total`` the square root of the visits of the node. Source: D.
    Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through self-play",
    Science 362, 2018, supplementary materials, "Search".

    Example:
        >>> puct(0.5, 3, 4.0, 0.25, 2.0)
        1.0
    """
    return value + c * prior * root_total / (1 + visits)


def exp3(share: Any, count: Any, gamma: Any) -> Any:
    """Return the probability of each action under EXP3, ``(1 - gamma) * share + gamma / count``.

    ``share`` is the weight of an action divided by the sum of the ``count`` weights, ``gamma`` the share of uniform
    exploration. Source: P. Auer, N. Cesa-Bianchi, Y. Freund and R. E. Schapire, "The Nonstochastic Multiarmed Bandit
    Problem", SIAM Journal on Computing 32(1), 2002, figure 1.

    Example:
        >>> exp3(0.75, 2, 0.5)
        0.625
    """
    return (1 - gamma) * share + gamma / count


def gumbel_mixed_value(evaluation: Any, known: Any, total: Any) -> Any:
    """Return the value that Gumbel AlphaZero assumes for actions never taken, a mean of an estimate and of results.

    ``evaluation`` is the estimated value of the node, ``known`` the mean return of the actions that were taken,
    weighted by their prior, and ``total`` the visits. Source: I. Danihelka et al., "Policy improvement by planning with
    Gumbel", ICLR 2022.

    Example:
        >>> gumbel_mixed_value(0.0, 1.0, 3)
        0.75
    """
    return (evaluation + total * known) / (total + 1)


def gumbel_stretched(value: Any, low: Any, span: Any) -> Any:
    """Stretch the values of the actions of a node to [0, 1], as Gumbel AlphaZero does; ``span`` is their range."""
    return (value - low) / clip(span, CLOSE)


def gumbel_weight(most: Any, c_visit: Any, c_scale: Any) -> Any:
    """Return the weight of the values against the prior in Gumbel AlphaZero, ``(c_visit + most) * c_scale``.

    It grows with ``most``, the most visits of an action of the node. Source: as for :func:`gumbel_mixed_value`;
    ``sigma(q)`` there is this weight times :func:`gumbel_stretched`.
    """
    return (c_visit + most) * c_scale


def gumbel_logit(prior: Any, sigma: Any) -> Any:
    """Return the logit of an action under the improved policy of Gumbel AlphaZero, ``log(prior) + sigma(q)``.

    It is finite for a prior of 0, too. For ``sigma`` see :func:`gumbel_weight`.
    """
    return log(clip(prior, TINY)) + sigma


def gumbel_score(improved: Any, visits: Any, total: Any) -> Any:
    """Score actions below the root as Gumbel AlphaZero does, ``improved - visits / (1 + total)``.

    ``improved`` is the probability of each action under the improved policy, ``total`` the sum of ``visits``.
    Source: as for :func:`gumbel_mixed_value`.
    """
    return improved - visits / (1 + total)


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the softmax over the last dimension, float64 ``[..., A]``; each row has at least one finite logit.

    Example:
        >>> softmax(np.array([0.0, 0.0, -np.inf])).tolist()
        [0.5, 0.5, 0.0]
    """
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))
