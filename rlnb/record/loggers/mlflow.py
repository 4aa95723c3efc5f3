"""Logger that writes to the tracking store or server of MLflow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rlnb.record.loggers.common import Logger, as_number
from rlnb.record.video import as_video, encode_mp4


class MLFlowLogger(Logger):
    """Logger of MLflow: each logger is a run of the experiment ``exp_name``.

    Args:
        exp_name: name of the experiment, which is made if there is none of that name.
        tracking_uri: address of the tracking store or server, such as "sqlite:///mlflow.db". Default: MLflow's own.
        tags: tags of the run.
        video_fps: frames per second of videos.
        **kwargs: arguments of ``MlflowClient.create_experiment``, such as ``artifact_location``.

    Attributes:
        experiment: the ``MlflowClient``.
        run_id: id of the run.

    Raises:
        ImportError: If the package ``mlflow`` is not installed.

    Example:
        >>> logger = MLFlowLogger("pendulum", "sqlite:///mlflow.db")  # doctest: +SKIP
        >>> logger.log_scalar("train/return", -1200.0, step=0)  # doctest: +SKIP
        >>> logger.close()  # doctest: +SKIP
    """

    def __init__(
        self,
        exp_name: str,
        tracking_uri: str | None = None,
        tags: Mapping[str, Any] | None = None,
        *,
        video_fps: int = 30,
        **kwargs: Any,
    ) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise ImportError(
                "MLFlowLogger needs the package mlflow, which is not installed. "
                "Fix: pip install mlflow, or use CSVLogger, which needs no package."
            ) from error
        super().__init__(exp_name, "" if tracking_uri is None else tracking_uri)
        self.video_fps = video_fps
        self.experiment = MlflowClient(tracking_uri=tracking_uri)
        found = self.experiment.get_experiment_by_name(exp_name)
        experiment_id = self.experiment.create_experiment(exp_name, **kwargs) if found is None else found.experiment_id
        self.run_id = self.experiment.create_run(experiment_id, tags=dict(tags or {})).info.run_id

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Log one number as a metric; see :meth:`Logger.log_scalar`."""
        self._assert_open()
        self.experiment.log_metric(self.run_id, name, as_number(name, value), step=self._step(name, step))
        self._counts[name] += 1

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log a video as the artifact ``videos/<name>_<step>.mp4``; see :meth:`Logger.log_video`.

        Args:
            name: name of the video.
            video: frames ``[T, C, H, W]``, or one video ``[1, T, C, H, W]``, of 1 or 3 channels.
            step: see :meth:`Logger.log_scalar`.
            **kwargs: ``fps``, the frames per second. Default: ``video_fps``.

        Raises:
            ImportError: If the package ``av`` is not installed.
        """
        self._assert_open()
        encoded = encode_mp4(as_video(video), kwargs.get("fps") or self.video_fps)
        target = PurePosixPath("videos", f"{name}_{self._step(name, step)}.mp4")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, target.name)
            path.write_bytes(encoded)
            self.experiment.log_artifact(self.run_id, os.fspath(path), str(target.parent))
        self._counts[name] += 1

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the hyperparameters as parameters of the run."""
        self._assert_open()
        for name, value in cfg.items():
            self.experiment.log_param(self.run_id, name, value)

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Log a text as the artifact ``texts/<name><step>.txt``; see :meth:`Logger.log_str`."""
        self._assert_open()
        self.experiment.log_text(self.run_id, value, f"texts/{name}{self._step(name, step)}.txt")
        self._counts[name] += 1

    def close(self) -> None:
        """Finish the run; see :meth:`Logger.close`."""
        if not self.closed:
            self.experiment.set_terminated(self.run_id)
        super().close()
