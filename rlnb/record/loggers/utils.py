"""Making loggers and names of experiments."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from rlnb.record.loggers.common import Logger
from rlnb.record.loggers.csv import CSVLogger


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
        logger_type: "csv"; ``None`` or "" for no logger.
        logger_name: folder of the logs.
        experiment_name: name of the experiment; see :func:`generate_exp_name`.
        **kwargs: further arguments of the logger; "log_dir" is used instead of ``logger_name``.

    Raises:
        NotImplementedError: If there is no logger of this type.

    Example:
        >>> get_logger("csv", "logs", "first")
        CSVLogger(exp_name='first', log_dir='logs')
        >>> get_logger("", "logs", "first") is None
        True
    """
    if not logger_type:
        return None
    if logger_type != "csv":
        raise NotImplementedError(f"logger_type must be 'csv', or '' for no logger, got {logger_type!r}.")
    return CSVLogger(experiment_name, log_dir=kwargs.pop("log_dir", logger_name), **kwargs)
