"""Recording of training: loggers of scalars, hyperparameters and videos."""

from rlnb.record.loggers import CSVLogger

__all__ = ["CSVLogger"]
