"""Loggers, which write the scalars, hyperparameters and videos of an experiment."""

from rlnb.record.loggers.common import Logger
from rlnb.record.loggers.csv import CSVLogger
from rlnb.record.loggers.utils import generate_exp_name, get_logger

__all__ = ["CSVLogger", "Logger", "generate_exp_name", "get_logger"]
