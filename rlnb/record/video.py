"""Videos of frames: checks, grids of images, and files in the formats mp4, gif, pt and memmap."""

from __future__ import annotations

import importlib
import io
import math
import os
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

FORMATS = ("pt", "memmap", "gif", "mp4")
"""Formats: "pt" (``torch.save``), "memmap" (the bytes alone), "gif" (256 colors a frame) and "mp4" (H.264)."""


def as_video(video: Any) -> torch.Tensor:
    """Check the frames of a video, and return them as a tensor.

    Args:
        video: frames ``[T, C, H, W]`` or videos ``[N, T, C, H, W]`` of dtype uint8, as a tensor, an array or a list of
            frames of one shape.

    Raises:
        ValueError: If it has another shape, no frame, or frames of different shapes.
        TypeError: If its dtype is not uint8.

    Example:
        >>> as_video([torch.zeros(3, 8, 8, dtype=torch.uint8)] * 5).shape
        torch.Size([5, 3, 8, 8])
    """
    if isinstance(video, (list, tuple)):
        frames = [torch.as_tensor(frame) for frame in video]
        for t, frame in enumerate(frames):
            if frame.shape != frames[0].shape:
                raise ValueError(
                    f"The frames of a video have one shape: frame 0 has {list(frames[0].shape)}, and frame {t} has "
                    f"{list(frame.shape)}. Nothing was written. Fix: scale them to one size first, as Resize does."
                )
        video = torch.stack(frames) if frames else torch.zeros(0)
    if isinstance(video, np.ndarray):
        video = torch.from_numpy(video)
    if not isinstance(video, torch.Tensor) or video.ndim not in (4, 5) or not video.numel():
        got = f"a tensor of shape {list(video.shape)}" if isinstance(video, torch.Tensor) else type(video).__name__
        raise ValueError(f"A video is a tensor [T, C, H, W] or [N, T, C, H, W], got {got}. Nothing was written.")
    if video.dtype is not torch.uint8:
        raise TypeError(
            f"The frames of a video have dtype torch.uint8, from 0 to 255, got {video.dtype}. Nothing was written. "
            "Fix: (255 * video).round().to(torch.uint8), if they are from 0 to 1."
        )
    return video.detach()


def image_grid(images: torch.Tensor) -> torch.Tensor:
    """Lay out images in the rows of a grid that is as square as possible.

    Args:
        images: images ``[N, C, H, W]``.

    Returns:
        One image ``[C, rows * H, columns * W]``. Cells without an image are black.

    Example:
        >>> image_grid(torch.ones(3, 1, 8, 8, dtype=torch.uint8)).shape
        torch.Size([1, 16, 16])
    """
    n, channels, height, width = images.shape
    columns = math.isqrt(n - 1) + 1
    rows = -(-n // columns)
    cells = torch.cat([images, images.new_zeros(rows * columns - n, channels, height, width)])
    grid = cells.unflatten(0, (rows, columns)).permute(2, 0, 3, 1, 4)
    return grid.reshape(channels, rows * height, columns * width)


def write_video(path: str | os.PathLike[str], video: Any, fps: float = 30) -> None:
    """Write a video to a file, whose format is that of its suffix.

    The file appears under its name once it is complete: a write that fails, such as on a full disk, leaves nothing.

    Args:
        path: name of the file, in a folder that exists. A file of that name is replaced.
        video: see :func:`as_video`. An mp4 or gif holds one video, of images of one or three channels.
        fps: frames per second, for mp4 and gif. A gif counts in hundredths of a second.

    Raises:
        ValueError: If the format is unknown, or the frames do not fit it.
        TypeError: If the frames are not uint8.
        ImportError: If the format needs a package that is not installed: ``av`` for mp4, ``pillow`` for gif.
        OSError: If the file cannot be written.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "black.pt")
        >>> write_video(path, torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
        >>> read_video(path).shape
        torch.Size([5, 3, 8, 8])
    """
    path = Path(path)
    video_format = check_format(path.suffix.removeprefix("."))
    frames = as_video(video)
    if video_format == "pt":
        write_whole(path, lambda file: torch.save(frames.clone(), file))
    elif video_format == "memmap":
        write_whole(path, lambda file: _write_bytes(file, frames))
    else:
        encoded = (encode_mp4 if video_format == "mp4" else encode_gif)(frames, fps)
        write_whole(path, lambda file: file.write(encoded))


def check_format(video_format: str) -> str:
    """Return the name of a format; raise ``ValueError`` if there is none of that name."""
    if video_format not in FORMATS:
        legal = ", ".join(map(repr, FORMATS))
        raise ValueError(
            f"video_format must be one of {legal}, got {video_format!r}. Fix: video_format='mp4', which browsers play."
        )
    return video_format


def _write_bytes(file: IO[bytes], frames: torch.Tensor) -> None:
    # Not through a memory map: on a full disk, writing to one kills the process.
    file.write(frames.cpu().contiguous().numpy().data.cast("B"))


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file under another name, and rename it when it is complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            write(file)
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError where a write failed
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        raise unwritable(path, cause, "Nothing was left under that name.") from error
    finally:
        partial.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError, left: str) -> OSError:
    """Make the error for a file that cannot be written, of the same type as the one of the system."""
    found = type(error)(
        f"{str(path)!r} cannot be written: {error.strerror}. {left} Fix: log to another folder, such as "
        "CSVLogger(exp_name, log_dir='runs'), or free space on the disk."
    )
    found.errno = error.errno
    return found


# Encoded formats ---------------------------------------------------------------------------------------------------


def encode_mp4(video: torch.Tensor, fps: float = 30) -> bytes:
    """Encode a video as mp4 (H.264), which browsers play.

    H.264 needs an even number of rows and columns: an odd one is repeated.

    Args:
        video: one video, see :func:`write_video`.
        fps: frames per second.

    Raises:
        ImportError: If the package ``av`` is not installed.
    """
    av = _av("encodes")
    frames = _rgb(video, "mp4")
    odd = [(0, 0), (0, frames.shape[1] % 2), (0, frames.shape[2] % 2), (0, 0)]
    frames = np.pad(frames, odd, "edge") if any(after for _, after in odd) else frames
    encoded = io.BytesIO()
    with av.open(encoded, "w", format="mp4") as container:
        rate = Fraction(fps).limit_denominator(1001)
        stream = container.add_stream("libx264", rate=rate, options={"preset": "veryfast", "crf": "18"})
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuv420p"
        for frame in frames:
            image = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            container.mux(stream.encode(image))
        container.mux(stream.encode())
    return encoded.getvalue()


def encode_gif(video: torch.Tensor, fps: float = 30) -> bytes:
    """Encode a video as an animated gif. Frames of at most 256 colors keep each of them.

    Args:
        video: one video, see :func:`write_video`.
        fps: frames per second, rounded to hundredths of a second; at most 50.

    Raises:
        ImportError: If the package ``pillow`` is not installed.
    """
    _pillow("encodes")
    frames = _rgb(video, "gif")
    pause = 10 * max(2, round(100 / fps))
    images = [_paletted(frame) for frame in frames]
    encoded = io.BytesIO()
    # Equal frames become one that is shown longer: the comment tells how many there were.
    images[0].save(
        encoded, "GIF", save_all=True, append_images=images[1:], duration=pause, loop=0, optimize=False,
        comment=f"{len(images)} frames of {pause} ms",
    )  # fmt: skip
    return encoded.getvalue()


def _paletted(frame: np.ndarray) -> Any:
    """Convert a frame ``[H, W, 3]`` to an image with a palette, exactly if it has at most 256 colors."""
    from PIL import Image

    packed = frame.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colors, index = np.unique(packed, return_inverse=True)
    if len(colors) > 256:
        return Image.fromarray(frame).quantize(256)
    image = Image.fromarray(index.reshape(packed.shape).astype(np.uint8), "P")
    image.putpalette(colors.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes())
    return image


def _rgb(video: torch.Tensor, video_format: str) -> np.ndarray:
    """Return one video as an array ``[T, H, W, 3]``."""
    if video.ndim == 5:
        if len(video) != 1:
            raise ValueError(
                f"A file of the format {video_format!r} holds one video, got {len(video)}, a tensor of shape "
                f"{list(video.shape)}. Nothing was written. Fix: log them one by one, or let VideoRecorder(..., "
                "make_grid=True) lay them out in one."
            )
        video = video[0]
    if video.shape[1] not in (1, 3):
        hint = (
            " Fix: video.movedim(-1, 1), if the channels are last."
            if video.shape[-1] in (1, 3)
            else " Fix: video[:, :3], if the fourth channel is transparency."
            if video.shape[1] == 4
            else ""
        )
        raise ValueError(
            f"A file of the format {video_format!r} takes images of 1 or 3 channels, [T, C, H, W], got a tensor of "
            f"shape {list(video.shape)}. Nothing was written.{hint}"
        )
    return video.expand(-1, 3, -1, -1).movedim(1, -1).cpu().numpy()


def read_video(path: str | os.PathLike[str]) -> torch.Tensor:
    """Read the frames of a video that a logger wrote.

    The formats "pt" and "gif" (of at most 256 colors a frame) return what was written. "mp4" compresses, so that its
    frames differ a little, and has an even number of rows and columns.

    Args:
        path: a file with the suffix ".pt", ".gif" or ".mp4". A ".memmap" holds no shape: read it with
            ``tensordict.MemoryMappedTensor.from_filename(path, dtype=torch.uint8, shape=shape)``.

    Returns:
        The frames, uint8 of shape ``[T, C, H, W]``; for several videos in a ".pt", ``[N, T, C, H, W]``.

    Raises:
        ValueError: If the format is another one.
        ImportError: If the package that decodes it is not installed.
    """
    video_format = check_format(Path(path).suffix.removeprefix("."))
    if video_format == "memmap":
        raise ValueError(
            "A .memmap holds the bytes of a video without their shape. Fix: "
            "MemoryMappedTensor.from_filename(path, dtype=torch.uint8, shape=shape)."
        )
    if video_format == "pt":
        video = torch.load(path, weights_only=True)
        return video[0] if video.ndim == 5 and len(video) == 1 else video
    frames = (_decode_mp4 if video_format == "mp4" else _decode_gif)(path)
    return torch.from_numpy(np.stack(frames)).movedim(-1, 1).contiguous()


def _decode_mp4(path: str | os.PathLike[str]) -> Sequence[np.ndarray]:
    with _av("decodes").open(os.fspath(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def _decode_gif(path: str | os.PathLike[str]) -> Sequence[np.ndarray]:
    _pillow("decodes")
    from PIL import Image, ImageSequence

    frames = []
    with Image.open(path) as image:
        ours = re.fullmatch(rb"(\d+) frames of (\d+) ms", image.info.get("comment", b""))
        count, pause = map(int, ours.groups()) if ours else (0, 0)
        for frame in ImageSequence.Iterator(image):
            shown = frame.info.get("duration", pause)
            frames += [np.array(frame.convert("RGB"))] * (round(shown / pause) if pause else 1)
    return frames + frames[-1:] * (count - len(frames))


def _needs(package: str, module: str, does: str, install: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"The package {package} {does} videos, and is not installed. Fix: pip install {install}, or use the format "
            "'pt', which needs no package."
        ) from error


def _av(does: str) -> Any:
    return _needs("av", "av", f"{does} mp4", "'rlnb[video]'")


def _pillow(does: str) -> Any:
    return _needs("pillow", "PIL.Image", f"{does} gif", "pillow")
