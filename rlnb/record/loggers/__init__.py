"""Loggers, which write the scalars, hyperparameters, texts and videos of an experiment."""

from rlnb.record.loggers.common import Logger
from rlnb.record.loggers.csv import CSVLogger
from rlnb.record.loggers.mlflow import MLFlowLogger
from rlnb.record.loggers.tensorboard import TensorBoardLogger, TensorboardLogger
from rlnb.record.loggers.utils import generate_exp_name, get_logger
from rlnb.record.loggers.wandb import WandbLogger

__all__ = [
    "CSVLogger", "Logger", "MLFlowLogger", "TensorBoardLogger", "TensorboardLogger", "WandbLogger", "generate_exp_name",
    "get_logger",
]  # fmt: skip
