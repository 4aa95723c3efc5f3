"""Exploration types: whether probabilistic policies sample their action or take the mode, median or mean."""

from __future__ import annotations

import warnings
from typing import Any

from tensordict.nn.probabilistic import InteractionType, interaction_type, set_interaction_type

ExplorationType = InteractionType
"""How a probabilistic module gets a value from its distribution: MODE, MEDIAN, MEAN, RANDOM or DETERMINISTIC.

It is tensordict's ``InteractionType``, so one setting controls tensordict's modules and those built on them.
"""


class set_exploration_type(set_interaction_type):
    """Set the exploration type of all probabilistic modules for a block of code, or while a decorated function runs.

    Blocks can be nested; the end of a block restores the previous type. Outside of all blocks each module follows its
    own ``default_interaction_type``.

    Args:
        type: the type, or its name in upper or lower case. ``None``: each module's own default.
        **kwargs: those of ``tensordict.nn.set_interaction_type``.

    Raises:
        ValueError: If there is no such type. The legal ones are listed.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule
        >>> policy = ProbabilisticTensorDictModule(
        ...     in_keys=["probs"], out_keys=["action"], distribution_class=torch.distributions.Categorical
        ... )
        >>> with set_exploration_type(ExplorationType.MODE):
        ...     policy(TensorDict({"probs": torch.tensor([0.4, 0.6])}))["action"]
        tensor(1)
    """

    def __init__(self, type: ExplorationType | str | None = ExplorationType.DETERMINISTIC, **kwargs: Any) -> None:
        try:
            super().__init__(type, **kwargs)
        except ValueError:
            names = ", ".join(member.name for member in ExplorationType)
            raise ValueError(
                f"There is no exploration type {type!r}. The types are: {names}. "
                "Fix: set_exploration_type(ExplorationType.RANDOM)."
            ) from None


def exploration_type() -> ExplorationType | None:
    """Return the current exploration type.

    Returns:
        The type set by :class:`set_exploration_type`. ``None`` outside of its blocks, where each module follows its
        own default.

    Example:
        >>> exploration_type() is None
        True
        >>> with set_exploration_type("mean"):
        ...     exploration_type()
        <InteractionType.MEAN: 'mean'>
    """
    return interaction_type()


def set_exploration_mode(mode: ExplorationType | str | None) -> set_exploration_type:
    """Set the exploration type, under its former name.

    Deprecated: use :class:`set_exploration_type`.

    Args:
        mode: the name of the type, such as ``"random"``.

    Returns:
        A context manager and decorator.

    Raises:
        ValueError: If there is no such type.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"), set_exploration_mode("mode"):
        ...     exploration_type()
        <InteractionType.MODE: 'mode'>
    """
    _deprecated("set_exploration_mode(mode)", "set_exploration_type(type)")
    return set_exploration_type(mode)


def exploration_mode() -> str | None:
    """Return the name of the current exploration type, under the function's former name.

    Deprecated: use :func:`exploration_type`.

    Returns:
        The name in lower case. ``None`` if no type is set.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"), set_exploration_type("mode"):
        ...     exploration_mode()
        'mode'
    """
    _deprecated("exploration_mode()", "exploration_type()")
    current = exploration_type()
    return None if current is None else current.value


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated. Fix: {new}.", DeprecationWarning, stacklevel=3)
