"""Dirichlet noise on the prior of a root, so that self-play explores actions that the policy rates low."""

from __future__ import annotations

import numpy as np

from rlnb.search.games import Array


class RootNoise:
    """Mixes Dirichlet noise into the prior of the legal actions of a root.

    Source: D. Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through
    self-play", Science 362, 2018: ``(1 - fraction) * prior + fraction * noise``.

    Args:
        alpha: concentration of the symmetric Dirichlet distribution. AlphaZero uses 0.3 in chess and 0.03 in Go, about
            10 divided by the number of legal actions.
        fraction: share of the noise, from 0 to 1.

    Raises:
        ValueError: If ``alpha`` is not positive, or ``fraction`` is not from 0 to 1.

    Example:
        >>> noise = RootNoise(alpha=0.3)
        >>> legal = np.array([[True, True, False]])
        >>> prior = noise(np.array([[0.5, 0.5, 0.0]]), legal, np.random.default_rng(0))
        >>> round(float(prior.sum()), 6), float(prior[0, 2])
        (1.0, 0.0)
    """

    def __init__(self, alpha: float = 0.3, fraction: float = 0.25) -> None:
        if not alpha > 0 or not 0 <= fraction <= 1:
            raise ValueError(
                f"RootNoise takes a positive alpha and a fraction from 0 to 1, got alpha={alpha!r}, "
                f"fraction={fraction!r}."
            )
        self.alpha, self.fraction = alpha, fraction

    def __call__(self, prior: Array, legal: Array, rng: np.random.Generator) -> Array:
        """Return the prior ``[k, A]`` of actions with noise on the legal ones, a new array."""
        drawn = np.where(legal, rng.standard_gamma(self.alpha, size=prior.shape), 0.0)
        total = drawn.sum(-1, keepdims=True)
        count = np.maximum(legal.sum(-1, keepdims=True), 1)
        # With a small alpha all draws may underflow to 0. The noise is then uniform.
        noise = np.where(total > 0, drawn / np.where(total > 0, total, 1), legal / count)
        return (1 - self.fraction) * prior + self.fraction * noise

    def __repr__(self) -> str:
        return f"RootNoise(alpha={self.alpha}, fraction={self.fraction})"


__all__ = ["RootNoise"]
