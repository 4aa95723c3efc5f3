"""Recording: loggers of scalars, hyperparameters, texts and videos, and transforms that record an env."""

from rlnb.record.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, TensorboardLogger, WandbLogger
from rlnb.record.recorder import PixelRenderTransform, TensorDictRecorder, VideoRecorder
from rlnb.record.video import read_video, write_video

__all__ = [
    "CSVLogger", "MLFlowLogger", "PixelRenderTransform", "TensorBoardLogger", "TensorDictRecorder", "TensorboardLogger",
    "VideoRecorder", "WandbLogger", "read_video", "write_video",
]  # fmt: skip
