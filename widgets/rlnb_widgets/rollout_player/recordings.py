"""What can be played beside a rollout: recordings on disk, and the steps in a replay buffer or a dataset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.replay_buffers.buffer import ReplayBuffer
from rlnb.data.replay_buffers.ensembles.buffer import ReplayBufferEnsemble
from rlnb.record.video import read_video

_MOST_STEPS = 10_000  # that open within a second


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


def opened(rollout: Any) -> tuple[Any, str]:
    """Read a rollout from its file or buffer if it is given as one, and return anything else as it is.

    Returns:
        The rollout, and a sentence if it is not all that there is.
    """
    if isinstance(rollout, (str, os.PathLike)):
        return open_recording(rollout), ""
    if isinstance(rollout, ReplayBuffer) and not isinstance(rollout, ReplayBufferEnsemble):
        return first_steps(rollout)
    return rollout, ""


def first_steps(buffer: ReplayBuffer) -> tuple[Any, str]:
    """Read the first steps of a buffer, in the order of its storage: about 10,000, or those of one whole item.

    Returns:
        What was read, with time as the last batch dimension, and a sentence if there is more.

    Example:
        >>> from rlnb.data import LazyTensorStorage
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(30_000))
        >>> index = buffer.extend(TensorDict({"reward": torch.zeros(30_000, 1)}, [30_000]))
        >>> rollout, note = first_steps(buffer)
        >>> len(rollout), note
        (10000, 'Showing the first 10,000 of 30,000 items of the buffer; buffer[i:j] reads others.')
    """
    rows = len(buffer.storage)
    if not rows:
        raise ValueError("RolloutPlayer plays what a buffer holds, and it is empty. Fix: buffer.extend(data) first.")
    first = buffer[:1]
    width = first.batch_size[1:].numel() if isinstance(first, TensorDictBase) else 1
    shown = min(rows, max(1, _MOST_STEPS // width))
    read = buffer[:shown]
    if buffer.storage.ndim > 1 and isinstance(read, TensorDictBase):
        read = read.transpose(0, -1)  # a storage is time first
    note = f"Showing the first {shown:,} of {rows:,} items of the buffer; buffer[i:j] reads others."
    return read, note if shown < rows else ""
