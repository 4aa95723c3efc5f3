"""Logger that sends an experiment to Weights & Biases, or keeps it on disk to be sent later."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlnb.record.loggers.common import Logger, as_number
from rlnb.record.video import as_video, encode_mp4

STEP = "trainer/step"
"""The entry that charts of Weights & Biases have as their x-axis."""


class WandbLogger(Logger):
    """Logger of Weights & Biases.

    Args:
        exp_name: name of the run.
        offline: whether to keep the run on disk; ``wandb sync`` sends it later. Default: it is sent while it runs.
        save_dir: folder of the files. Default: the working directory.
        id: id of the run; one that exists is continued. Default: a new one.
        project: name of the project.
        video_fps: frames per second of videos.
        **kwargs: further arguments of ``wandb.init``.

    Attributes:
        experiment: the run, as ``wandb.init`` returns it.

    Raises:
        ImportError: If the package ``wandb`` is not installed.

    Example:
        >>> logger = WandbLogger("pendulum", offline=True, project="rlnb")  # doctest: +SKIP
        >>> logger.log_scalar("train/return", -1200.0, step=0)  # doctest: +SKIP
        >>> logger.close()  # doctest: +SKIP
    """

    def __init__(
        self,
        exp_name: str,
        offline: bool = False,
        save_dir: str | os.PathLike[str] | None = None,
        id: str | None = None,
        project: str | None = None,
        *,
        video_fps: int = 32,
        **kwargs: Any,
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ImportError(
                "WandbLogger needs the package wandb, which is not installed. "
                "Fix: pip install wandb, or use CSVLogger, which needs no package."
            ) from error
        super().__init__(exp_name, os.curdir if save_dir is None else save_dir)
        self.video_fps = video_fps
        options = {"resume": "allow", **({"mode": "offline"} if offline else {}), **kwargs}
        self.experiment = wandb.init(name=exp_name, dir=self.log_dir, id=id, project=project, **options)
        self.experiment.define_metric("*", step_metric=STEP)

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Log one number; see :meth:`Logger.log_scalar`."""
        self._log(name, as_number(name, value), step)

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log a video as mp4; see :meth:`Logger.log_video`.

        Args:
            name: name of the video.
            video: frames ``[T, C, H, W]``, or one video ``[1, T, C, H, W]``, of 1 or 3 channels.
            step: see :meth:`Logger.log_scalar`.
            **kwargs: ``fps``, the frames per second, by default ``video_fps``; and arguments of ``wandb.Video``, such
                as ``caption``.

        Raises:
            ImportError: If the package ``av`` is not installed.
        """
        import wandb

        self._assert_open()
        encoded = encode_mp4(as_video(video), kwargs.pop("fps", None) or self.video_fps)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "video.mp4")
            path.write_bytes(encoded)
            # The run copies the file while it logs.
            self._log(name, wandb.Video(str(path), format="mp4", **kwargs), step)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Add the hyperparameters to the configuration of the run."""
        self._assert_open()
        self.experiment.config.update(dict(cfg), allow_val_change=True)

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Log a text; see :meth:`Logger.log_str`."""
        self._log(name, value, step)

    def _log(self, name: str, value: Any, step: int | None) -> None:
        self._assert_open()
        self.experiment.log({name: value, STEP: self._step(name, step)})
        self._counts[name] += 1

    def close(self) -> None:
        """Finish the run; see :meth:`Logger.close`."""
        if not self.closed:
            self.experiment.finish()
        super().close()
