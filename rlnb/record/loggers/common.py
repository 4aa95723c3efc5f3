"""Abstract base class of loggers."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase


class Logger(ABC):
    """Abstract base class of loggers, which write what an experiment measures.

    A subclass implements :meth:`log_scalar`, :meth:`log_video` and :meth:`log_hparams`, and :meth:`log_str` if it can
    write text.

    Args:
        exp_name: name of the experiment.
        log_dir: folder of the logs.

    Example:
        >>> class Printer(Logger):
        ...     def log_scalar(self, name, value, step=None):
        ...         print(name, value, step)
        ...     def log_video(self, name, video, step=None, **kwargs):
        ...         print(name, tuple(video.shape), step)
        ...     def log_hparams(self, cfg):
        ...         print(dict(cfg))
        >>> Printer("mine", "logs").log_metrics({"loss": 0.5, "train": {"return": 20.0}}, step=3)
        loss 0.5 3
        train/return 20.0 3
        {'loss': 0.5, 'train/return': 20.0}
    """

    #: Whether :meth:`close` was called.
    closed = False

    def __init__(self, exp_name: str, log_dir: str | os.PathLike[str]) -> None:
        self.exp_name, self.log_dir = exp_name, os.fspath(log_dir)
        self._counts: Counter[str] = Counter()

    @abstractmethod
    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Log one number.

        Args:
            name: name of the series, such as "train/return".
            value: a number, or a tensor or array with one element.
            step: its position in the series, such as the number of frames. Default: the number of values so far.
        """

    @abstractmethod
    def log_video(self, name: str, video: torch.Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Log a video.

        Args:
            name: name of the video.
            video: frames ``[T, C, H, W]`` or videos ``[N, T, C, H, W]``, of dtype ``uint8``.
            step: see :meth:`log_scalar`.
            **kwargs: options of the logger, such as ``fps``, the frames per second.
        """

    @abstractmethod
    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the hyperparameters of the experiment."""

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Log a text.

        Args:
            name: name of the text.
            value: the text.
            step: see :meth:`log_scalar`.

        Raises:
            NotImplementedError: If the logger writes no text.
        """
        raise NotImplementedError(
            f"{type(self).__name__} writes no text. Fix: use CSVLogger, or implement log_str(name, value, step=None)."
        )

    def close(self) -> None:
        """Finish the log. Logging afterwards raises ``RuntimeError``; closing twice does nothing."""
        self.closed = True

    def _assert_open(self) -> None:
        if self.closed:
            name = type(self).__name__
            raise RuntimeError(
                f"{name} {self.exp_name!r} was closed, so it logs nothing more. "
                f"Fix: call close() after the last log, or make a new {name}."
            )

    def _step(self, name: str, step: int | None) -> int:
        """Return the step of a value: the given one, or the number of values so far."""
        return self._counts[name] if step is None else int(step)

    def log_metrics(
        self, metrics: Mapping[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/"
    ) -> dict[str, Any]:
        """Log several numbers of one step.

        Args:
            metrics: numbers by name, which may be nested.
            step: see :meth:`log_scalar`.
            keys_sep: what joins the names of nested entries.

        Returns:
            The numbers by their joined names.
        """
        found = dict(_flat(metrics, keys_sep, ""))
        for name, value in found.items():
            self.log_scalar(name, value, step)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}(exp_name={self.exp_name!r}, log_dir={self.log_dir!r})"


def _flat(metrics: Any, separator: str, start: str) -> list[tuple[str, float]]:
    """List all numbers of nested metrics by name, in their order."""
    found: list[tuple[str, float]] = []
    for name, value in metrics.items():
        here = f"{start}{name}"
        if isinstance(value, (Mapping, TensorDictBase)):
            found += _flat(value, separator, here + separator)
        else:
            found.append((here, as_number(here, value)))
    return found


def as_number(name: str, value: Any) -> float:
    """Convert a number, or a tensor or array with one element, into a float.

    Raises:
        TypeError: If it is something else.
    """
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        shape = getattr(value, "shape", None)
        got = f"a {type(value).__name__}" + ("" if shape is None else f" of shape {list(shape)}")
        raise TypeError(
            f"A logger writes one number for {name!r}, and got {got}. Nothing was written. "
            "Fix: reduce it first, for example with value.mean()."
        ) from None
