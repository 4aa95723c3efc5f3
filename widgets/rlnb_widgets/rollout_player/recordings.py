"""Recordings on disk as rollouts: files of a TensorDictRecorder, and videos of a logger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.record import read_video


def open_recording(path: str | os.PathLike[str]) -> TensorDictBase:
    """Read a recording from a file.

    Args:
        path: A ``.pt`` file that a :class:`~rlnb.record.TensorDictRecorder` wrote, or a video that a
            :class:`~rlnb.record.CSVLogger` wrote as pt, gif or mp4.

    Returns:
        The steps, in TED format. Those of a video of T frames are T - 1 steps, whose only entry is "pixels".

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a recording, or holds several videos.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "video_0.pt")
        >>> torch.save(torch.zeros(5, 3, 8, 8, dtype=torch.uint8), path)
        >>> open_recording(path)["next", "pixels"].shape
        torch.Size([4, 3, 8, 8])
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no recording at {str(path)!r}. Fix: pass a file that TensorDictRecorder wrote, such as "
            "'run_0.pt', or a video of CSVLogger."
        )
    if path.suffix != ".pt":
        return _steps_of(read_video(path))
    try:
        found = torch.load(path, weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{path.name!r} cannot be read; it was cut short, or is not a recording. "
            "Fix: record again, with TensorDictRecorder or VideoRecorder."
        ) from error
    if isinstance(found, TensorDictBase):
        return found
    if isinstance(found, torch.Tensor) and found.dtype is torch.uint8 and found.ndim in (4, 5):
        if found.ndim == 5 and len(found) > 1:
            raise ValueError(
                f"{path.name!r} holds {len(found)} videos, and RolloutPlayer plays one. "
                f"Fix: RolloutPlayer(TensorDict({{'pixels': read_video(path)}}, {list(found.shape[:2])}))."
            )
        return _steps_of(found.reshape(-1, *found.shape[-3:]))
    raise ValueError(
        f"{path.name!r} holds a {type(found).__name__}, which is not a recording. "
        "Fix: pass a file that TensorDictRecorder wrote, such as 'run_0.pt', or a video of CSVLogger."
    )


def _steps_of(frames: torch.Tensor) -> TensorDictBase:
    """Turn frames ``[T, C, H, W]`` into the steps from each to the next."""
    if len(frames) == 1:
        return TensorDict({"pixels": frames}, [1])
    return TensorDict({"pixels": frames[:-1], "next": {"pixels": frames[1:]}}, [len(frames) - 1])


def opened(rollout: Any) -> Any:
    """Read a rollout from its file if it is given as a path, and return anything else as it is."""
    return open_recording(rollout) if isinstance(rollout, (str, os.PathLike)) else rollout
