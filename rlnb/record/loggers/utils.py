"""Making loggers and names of experiments."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rlnb.record.loggers.common import Logger
from rlnb.record.loggers.csv import CSVLogger
from rlnb.record.loggers.mlflow import MLFlowLogger
from rlnb.record.loggers.tensorboard import TensorboardLogger
from rlnb.record.loggers.wandb import WandbLogger


def generate_exp_name(model_name: str, experiment_name: str) -> str:
    """Make a name for an experiment that no other has: both names, a random id and the time.

    Args:
        model_name: name of the algorithm.
        experiment_name: name of the experiment.

    Example:
        >>> generate_exp_name("DQN", "CartPole").startswith("DQN_CartPole_")
        True
    """
    now = datetime.now().strftime("%y_%m_%d-%H_%M_%S")
    return f"{model_name}_{experiment_name}_{str(uuid.uuid4())[:8]}_{now}"


def get_logger(logger_type: str | None, logger_name: str, experiment_name: str, **kwargs: Any) -> Logger | None:
    """Make a logger of a type that a configuration names.

    Args:
        logger_type: "csv", "tensorboard", "wandb" or "mlflow"; ``None`` or "" for no logger.
        logger_name: folder of the logs; for "mlflow", the tracking URI.
        experiment_name: name of the experiment; see :func:`generate_exp_name`.
        **kwargs: further arguments of the logger. "log_dir", or "wandb_kwargs" and "mlflow_kwargs", which are
            dictionaries of such arguments, are used in place of ``logger_name``.

    Raises:
        NotImplementedError: If there is no logger of this type.
        ImportError: If the logger needs a package that is not installed.

    Example:
        >>> get_logger("csv", "logs", "first")
        CSVLogger(exp_name='first', log_dir='logs')
        >>> get_logger("", "logs", "first") is None
        True
    """
    if not logger_type:
        return None
    makers: dict[str, tuple[Callable[..., Logger], str]] = {
        "csv": (CSVLogger, "log_dir"),
        "tensorboard": (TensorboardLogger, "log_dir"),
        "wandb": (WandbLogger, "save_dir"),
        "mlflow": (MLFlowLogger, "tracking_uri"),
    }
    if logger_type not in makers:
        legal = ", ".join(map(repr, makers))
        raise NotImplementedError(f"logger_type must be {legal}, or '' for no logger, got {logger_type!r}.")
    make, place = makers[logger_type]
    nested = {name: kwargs.pop(f"{name}_kwargs", {}) for name in ("wandb", "mlflow")}
    options = {place: logger_name, **kwargs, **nested.get(logger_type, {})}
    if place != "log_dir" and "log_dir" in options:
        options[place] = options.pop("log_dir")
    return make(experiment_name, **options)
