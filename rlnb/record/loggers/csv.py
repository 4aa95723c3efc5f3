"""Logger that writes CSV files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from rlnb.record.loggers.common import Logger, as_number
from rlnb.record.video import as_video, check_format, unwritable, write_video


class CSVLogger(Logger):
    """Logger that writes files that any program reads.

    ``log_dir/exp_name/scalars/<name>.csv`` has a line ``step,value`` for each number, ``texts/hparams<n>.txt`` the
    hyperparameters, ``texts/<name><step>.txt`` a text, and ``videos/<name>_<step>.<format>`` the frames of a video,
    which :func:`~rlnb.record.read_video` reads.

    Args:
        exp_name: name of the experiment; its files are in a folder of that name. A second logger of the same name
            appends to the same files.
        log_dir: folder of the logs. Default: "csv_logs".
        video_format: "pt" (``torch.save``), "memmap" (the bytes of a ``MemoryMappedTensor``), "gif" or "mp4", which
            need the packages ``pillow`` and ``av``.
        video_fps: frames per second of a gif or mp4.

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
        self.video_format, self.video_fps = check_format(video_format), video_fps

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return Path(self.log_dir, self.exp_name)

    @property
    def experiment(self) -> SimpleNamespace:
        """The backend; programs read its ``log_dir``, the folder of the files as a string."""
        return SimpleNamespace(log_dir=os.fspath(self.folder))

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Append a line to the file of ``name``; see :meth:`Logger.log_scalar`."""
        self._assert_open()
        number = as_number(name, value)
        path = self._file("scalars", f"{name}.csv")
        try:
            with path.open("a") as file:
                file.write(f"{self._step(name, step)},{number}\n")
        except OSError as error:
            raise unwritable(path, error, "The number was not written.") from error
        self._counts[name] += 1

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Write a video to a file; see :meth:`Logger.log_video`.

        The file appears once it is complete. If it cannot be written, as on a full disk, nothing is left of it.

        Args:
            name: name of the video.
            video: frames ``[T, C, H, W]`` or videos ``[N, T, C, H, W]`` of dtype uint8, as a tensor, an array or a list
                of frames. The formats "mp4" and "gif" take one video of images of 1 or 3 channels.
            step: see :meth:`Logger.log_scalar`.
            **kwargs: ``fps``, the frames per second. Default: ``video_fps``.

        Raises:
            ValueError: If the frames are not those of a video, or not all of one shape.
            TypeError: If they are not uint8, or an argument is unknown.
            OSError: If the file cannot be written.
            RuntimeError: If the logger was closed.
        """
        self._assert_open()
        fps = kwargs.pop("fps", None)
        if kwargs:
            raise TypeError(f"log_video of a CSVLogger takes fps, and got {', '.join(kwargs)}.")
        video = as_video(video)
        path = self._file("videos", f"{name}_{self._step(name, step)}.{self.video_format}")
        write_video(path, video, self.video_fps if fps is None else fps)
        self._counts[name] += 1

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Write the hyperparameters to a text file, a line each."""
        self.log_str("hparams", "\n".join(f"{name}: {value}" for name, value in cfg.items()))

    def log_str(self, name: str, value: str, step: int | None = None) -> None:
        """Write a text to a file of its own; see :meth:`Logger.log_str`."""
        self._assert_open()
        path = self._file("texts", f"{name}{self._step(name, step)}.txt")
        try:
            path.write_text(value)
        except OSError as error:
            raise unwritable(path, error, "The text was not written.") from error
        self._counts[name] += 1

    def _file(self, kind: str, name: str) -> Path:
        """Return the path of a file, in a folder that exists."""
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"A logged name is part of the name of a file inside the log, got {name!r}.")
        path = self.folder / kind / parts
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(path, error, "Nothing was written.") from error
        return path

    def print_log_dir(self) -> None:
        """Print the path of each file."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                print(path)
