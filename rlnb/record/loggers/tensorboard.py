"""Logger that writes TensorBoard's event files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rlnb.record.loggers.common import Logger, as_number
from rlnb.record.video import as_video, encode_gif, image_grid, unwritable


class TensorboardLogger(Logger):
    """Logger that writes event files, which TensorBoard shows: ``tensorboard --logdir tb_logs``.

    Its other name, ``TensorBoardLogger``, is the same class.

    Args:
        exp_name: name of the experiment; its files are in a folder of that name.
        log_dir: folder of the logs. Default: "tb_logs".
        video_fps: frames per second of videos. Default: 30.

    Attributes:
        experiment: the ``torch.utils.tensorboard.SummaryWriter``.

    Raises:
        ImportError: If the package ``tensorboard`` is not installed.
        OSError: If the folder cannot be written.

    Example:
        >>> logger = TensorboardLogger("pendulum", log_dir="tb_logs")  # doctest: +SKIP
        >>> logger.log_scalar("train/return", -1200.0, step=0)  # doctest: +SKIP
        >>> logger.close()  # doctest: +SKIP
    """

    def __init__(self, exp_name: str, log_dir: str | os.PathLike[str] | None = None, video_fps: int = 30) -> None:
        try:
            import tensorboard  # noqa: F401  # torch's own error does not say which package it needs
        except ImportError as error:
            raise ImportError(
                "TensorboardLogger needs the package tensorboard, which is not installed. "
                "Fix: pip install 'rlnb[tensorboard]', or use CSVLogger, which needs no package."
            ) from error
        from torch.utils.tensorboard import SummaryWriter

        super().__init__(exp_name, "tb_logs" if log_dir is None else log_dir)
        self.video_fps = video_fps
        folder = Path(self.log_dir, exp_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error, "Nothing was written.") from error
        self.experiment: Any = SummaryWriter(str(folder))

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Log one number; see :meth:`Logger.log_scalar`."""
        self._assert_open()
        self.experiment.add_scalar(name, as_number(name, value), self._step(name, step))
        self._counts[name] += 1

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log a video as an animated image; see :meth:`Logger.log_video`.

        Args:
            name: name of the video.
            video: frames ``[T, C, H, W]`` or videos ``[N, T, C, H, W]``, which are shown as a grid.
            step: see :meth:`Logger.log_scalar`.
            **kwargs: ``fps``, the frames per second. Default: ``video_fps``.

        Raises:
            ImportError: If the package ``pillow`` is not installed.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._assert_open()
        video = as_video(video)
        frames = torch.stack([image_grid(images) for images in video.unbind(1)]) if video.ndim == 5 else video
        encoded = encode_gif(frames, kwargs.get("fps") or self.video_fps)
        channels, height, width = frames.shape[1:]
        image = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=encoded)
        summary = Summary(value=[Summary.Value(tag=name, image=image)])
        self.experiment.file_writer.add_summary(summary, self._step(name, step))
        self._counts[name] += 1

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the hyperparameters, to the same run; those that are neither numbers nor text as text."""
        from torch.utils.tensorboard.summary import hparams

        self._assert_open()
        plain = {
            name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in cfg.items()
        }
        for summary in hparams(plain, {}):
            self.experiment.file_writer.add_summary(summary)

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Log a text; see :meth:`Logger.log_str`."""
        self._assert_open()
        self.experiment.add_text(name, value, self._step(name, step))
        self._counts[name] += 1

    def close(self) -> None:
        """Write what is left, and close the files; see :meth:`Logger.close`."""
        if not self.closed:
            self.experiment.close()
        super().close()


TensorBoardLogger = TensorboardLogger
"""The older spelling of :class:`TensorboardLogger`."""
