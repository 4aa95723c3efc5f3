"""Logger that writes CSV files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import torch
from tensordict import MemoryMappedTensor

from rlnb.record.loggers.common import Logger, as_number

_FORMATS = ("pt", "memmap")


class CSVLogger(Logger):
    """Logger that writes files that any program reads.

    ``log_dir/exp_name/scalars/<name>.csv`` has a line ``step,value`` for each number, ``texts/hparams<n>.txt`` the
    hyperparameters, and ``videos/<name>_<step>.<format>`` the frames of a video.

    Args:
        exp_name: name of the experiment; its files are in a folder of that name. A second logger of the same name
            appends to the same files.
        log_dir: folder of the logs. Default: "csv_logs".
        video_format: "pt" (``torch.save``) or "memmap" (``MemoryMappedTensor``).
        video_fps: frames per second, for formats that have a clock.

    Raises:
        ValueError: If the video format is unknown.

    Example:
        >>> import tempfile
        >>> logger = CSVLogger("pendulum", log_dir=tempfile.mkdtemp())
        >>> for step, value in enumerate([-1200.0, -800.0]):
        ...     logger.log_scalar("train/return", value, step=step)
        >>> print((logger.folder / "scalars/train/return.csv").read_text(), end="")
        0,-1200.0
        1,-800.0
    """

    def __init__(
        self,
        exp_name: str,
        log_dir: str | os.PathLike[str] | None = None,
        video_format: str = "pt",
        video_fps: int = 30,
    ) -> None:
        super().__init__(exp_name, "csv_logs" if log_dir is None else log_dir)
        if video_format not in _FORMATS:
            raise ValueError(f"video_format must be one of {', '.join(map(repr, _FORMATS))}, got {video_format!r}.")
        self.video_format, self.video_fps = video_format, video_fps
        self._counts: Counter[str] = Counter()

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return Path(self.log_dir, self.exp_name)

    @property
    def experiment(self) -> SimpleNamespace:
        """The backend, of which programs read ``log_dir``: the folder of the files as a string."""
        return SimpleNamespace(log_dir=os.fspath(self.folder))

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Append a line to the file of ``name``; see :meth:`Logger.log_scalar`."""
        number = as_number(name, value)
        with self._file("scalars", f"{name}.csv").open("a") as file:
            file.write(f"{self._step(name, step)},{number}\n")
        self._counts[name] += 1

    def log_video(self, name: str, video: torch.Tensor, step: int | None = None, **kwargs: Any) -> None:
        """Write a video to a file; see :meth:`Logger.log_video`."""
        if not isinstance(video, torch.Tensor) or video.ndim not in (4, 5):
            got = f"a tensor of shape {list(video.shape)}" if isinstance(video, torch.Tensor) else type(video).__name__
            raise ValueError(f"A video is a tensor [T, C, H, W] or [N, T, C, H, W], got {got}. Nothing was written.")
        path = self._file("videos", f"{name}_{self._step(name, step)}.{self.video_format}")
        if self.video_format == "pt":
            torch.save(video, path)
        else:
            MemoryMappedTensor.from_tensor(video, filename=path, existsok=True)
        self._counts[name] += 1

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Write the hyperparameters to a text file, a line each."""
        path = self._file("texts", f"hparams{self._counts['hparams']}.txt")
        path.write_text("\n".join(f"{name}: {value}" for name, value in cfg.items()))
        self._counts["hparams"] += 1

    def _step(self, name: str, step: int | None) -> int:
        return self._counts[name] if step is None else int(step)

    def _file(self, kind: str, name: str) -> Path:
        """Return the path of a file, in a folder that exists."""
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"A logged name is part of the name of a file inside the log, got {name!r}.")
        path = self.folder / kind / parts
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def print_log_dir(self) -> None:
        """Print the path of each file."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                print(path)
