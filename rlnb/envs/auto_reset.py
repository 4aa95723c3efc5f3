"""Metaclass of environments: adds the keywords ``auto_reset`` and ``auto_reset_replace`` to every constructor."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from typing import Any

from rlnb.envs.specs import close_specs


class AutoResetMeta(ABCMeta):
    """Metaclass of :class:`~rlnb.envs.EnvBase`: ``SomeEnv(..., auto_reset=True)`` makes an ``AutoResetEnv``.

    It takes the two keywords itself, so every class has them and no ``__init__`` has to pass them on.
    """

    def __call__(
        cls, *args: Any, auto_reset: bool | None = None, auto_reset_replace: bool | None = None, **kwargs: Any
    ) -> Any:
        """Make an env, wrapped in an ``AutoResetEnv`` if it resets itself.

        Args:
            *args: for the class.
            auto_reset: whether the env resets itself: the observation of a step that ends an episode is the first one
                of the next episode.
            auto_reset_replace: replace that observation, which does not belong to the episode that ended, by a
                placeholder under "next". Default: True.
            **kwargs: for the class.
        """
        for name, value in (("auto_reset", auto_reset), ("auto_reset_replace", auto_reset_replace)):
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False and is {value!r}.")
        if auto_reset is None and auto_reset_replace is not None:
            raise ValueError(
                "auto_reset_replace says what becomes of the observations of an env that resets itself, and nothing "
                f"says that this one does. Fix: {cls.__name__}(..., auto_reset=True, "
                f"auto_reset_replace={auto_reset_replace})."
            )
        env = super().__call__(*args, **kwargs)
        if isinstance(env, cls):
            close_specs(env)  # specs could be edited in place while __init__ ran
        return env._auto_resetting(auto_reset_replace) if auto_reset else env

    @property
    def __signature__(cls) -> inspect.Signature:
        """Signature of ``__init__`` with the two keywords; without it, tools would show ``(*args, **kwargs)``."""
        init = cls.__init__  # type: ignore[misc]  # of a class, not of an instance
        own = list(inspect.signature(init).parameters.values())[1:]
        variadic = [own.pop()] if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else []
        names = ("auto_reset", "auto_reset_replace")
        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        return inspect.Signature([*own, *added, *variadic])
