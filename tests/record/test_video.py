"""Videos: each format read back, grids, invalid input; files are written whole or not at all."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.record import CSVLogger, read_video, write_video
from rlnb.record.video import FORMATS, as_video, image_grid


@pytest.fixture
def needs_av(missing):
    if find_spec("av") is None:
        missing("av", "pip install 'rlnb[video]'")


def flags(t=6, height=32, width=48, channels=3):
    """A video with areas of few colors, in which each frame differs."""
    video = torch.full((t, channels, height, width), 40, dtype=torch.uint8)
    video[:, 0, : height // 2] = 200
    for i in range(t):
        video[i, -1, height // 2 :, : 8 * (i + 1)] = 150
    return video


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("suffix", ["pt", "gif"])
def test_lossless_formats_give_the_same_frames(tmp_path, suffix, channels):
    video = flags(channels=channels)
    write_video(tmp_path / f"a.{suffix}", video)
    frames = read_video(tmp_path / f"a.{suffix}")
    assert torch.equal(frames, video.expand(-1, 3, -1, -1) if suffix == "gif" else video)


@pytest.mark.parametrize("channels", [1, 3])
def test_mp4_gives_nearly_the_same_frames(tmp_path, needs_av, channels):
    video = flags(channels=channels)
    write_video(tmp_path / "a.mp4", video)
    frames = read_video(tmp_path / "a.mp4")
    assert frames.shape == (6, 3, 32, 48)
    error = (frames.int() - video.expand(-1, 3, -1, -1)).abs()
    assert error.float().mean() < 3
    # Each frame is nearest to the frame that it was.
    distance = (frames[:, None].int() - video[None].int()).abs().flatten(2).float().mean(-1)
    assert distance.argmin(1).tolist() == list(range(6))


def test_an_odd_row_or_column_is_repeated_in_mp4(tmp_path, needs_av):
    video = flags(height=31, width=47)
    write_video(tmp_path / "a.mp4", video)
    frames = read_video(tmp_path / "a.mp4")
    assert frames.shape == (6, 3, 32, 48)
    assert (frames[:, :, :31, :47].int() - video).abs().float().mean() < 5  # color has half the resolution


def test_mp4_has_the_frames_per_second_it_was_given(tmp_path, needs_av):
    import av

    for fps in (7, 30, 59.94):
        write_video(tmp_path / "a.mp4", flags(), fps=fps)
        with av.open(str(tmp_path / "a.mp4")) as container:
            assert float(container.streams.video[0].average_rate) == pytest.approx(fps, rel=1e-4)
            assert container.streams.video[0].codec_context.name == "h264"


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(1, 256))
def test_a_gif_keeps_equal_frames_and_256_colors(tmp_path_factory, which, colors):
    palette = torch.randint(256, (colors, 3), dtype=torch.uint8)
    scenes = palette[torch.randint(colors, (3, 9, 11))].movedim(-1, 1)
    video = scenes[which]
    path = tmp_path_factory.mktemp("gif") / "a.gif"
    write_video(path, video)
    assert torch.equal(read_video(path), video)


def test_a_gif_of_more_colors_is_close(tmp_path):
    video = torch.arange(2 * 3 * 40 * 40).remainder(251).reshape(2, 3, 40, 40).to(torch.uint8)
    write_video(tmp_path / "a.gif", video)
    assert (read_video(tmp_path / "a.gif").int() - video).abs().float().mean() < 16


@given(st.integers(1, 10), st.sampled_from([1, 3]), st.integers(1, 6), st.integers(1, 6))
def test_a_grid_has_each_image_in_its_place(n, channels, height, width):
    images = torch.randint(1, 256, (n, channels, height, width), dtype=torch.uint8)
    grid = image_grid(images)
    columns = next(c for c in range(1, 20) if c * c >= n)
    for i, image in enumerate(images):
        top, left = i // columns * height, i % columns * width
        assert torch.equal(grid[:, top : top + height, left : left + width], image)
    assert int((grid > 0).sum()) == images.numel(), "the rest is black"


def test_lists_and_arrays_are_videos():
    frames = [np.zeros((3, 8, 8), np.uint8)] * 4
    assert as_video(frames).shape == as_video(np.stack(frames)).shape == (4, 3, 8, 8)


def test_a_memmap_is_the_bytes(tmp_path):
    video = flags().movedim(-1, -2)  # not contiguous
    write_video(tmp_path / "a.memmap", video)
    assert (tmp_path / "a.memmap").read_bytes() == video.contiguous().numpy().tobytes()


REFUSED = [
    (
        torch.zeros(3, 4),
        ValueError,
        "A video is a tensor [T, C, H, W] or [N, T, C, H, W], got a tensor of shape [3, 4]. Nothing was written.",
    ),
    (
        "a.mp4",
        ValueError,
        "A video is a tensor [T, C, H, W] or [N, T, C, H, W], got str. Nothing was written.",
    ),
    (
        [torch.zeros(3, 8, 8, dtype=torch.uint8), torch.zeros(3, 8, 9, dtype=torch.uint8)],
        ValueError,
        "The frames of a video have one shape: frame 0 has [3, 8, 8], and frame 1 has [3, 8, 9]. Nothing was written. "
        "Fix: scale them to one size first, as Resize does.",
    ),
    (
        torch.zeros(2, 3, 8, 8),
        TypeError,
        "The frames of a video have dtype torch.uint8, from 0 to 255, got torch.float32. Nothing was written. "
        "Fix: (255 * video).round().to(torch.uint8), if they are from 0 to 1.",
    ),
]


@pytest.mark.parametrize(("video", "error", "text"), REFUSED)
@pytest.mark.parametrize("video_format", FORMATS)
def test_an_object_that_is_not_a_video_is_rejected(tmp_path, video, error, text, video_format):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        CSVLogger("a", tmp_path, video_format=video_format).log_video("eval", video)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (
            (2, 5, 3, 8, 8),
            "A file of the format {!r} holds one video, got 2, a tensor of shape [2, 5, 3, 8, 8]. Nothing was written. "
            "Fix: log them one by one, or let VideoRecorder(..., make_grid=True) lay them out in one.",
        ),
        (
            (5, 8, 8, 3),
            "A file of the format {!r} takes images of 1 or 3 channels, [T, C, H, W], got a tensor of shape "
            "[5, 8, 8, 3]. Nothing was written. Fix: video.movedim(-1, 1), if the channels are last.",
        ),
        (
            (5, 4, 8, 8),
            "A file of the format {!r} takes images of 1 or 3 channels, [T, C, H, W], got a tensor of shape "
            "[5, 4, 8, 8]. Nothing was written. Fix: video[:, :3], if the fourth channel is transparency.",
        ),
        (
            (5, 2, 8, 8),
            "A file of the format {!r} takes images of 1 or 3 channels, [T, C, H, W], got a tensor of shape "
            "[5, 2, 8, 8]. Nothing was written.",
        ),
    ],
)
def test_gif_and_mp4_hold_one_video_of_images(tmp_path, needs_av, suffix, shape, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text.format(suffix))}$"):
        write_video(tmp_path / f"a.{suffix}", torch.zeros(shape, dtype=torch.uint8))
    assert not any(tmp_path.iterdir())


def test_an_unknown_format_lists_the_legal_ones(tmp_path):
    text = (
        "video_format must be one of 'pt', 'memmap', 'gif', 'mp4', got 'avi'. "
        "Fix: video_format='mp4', which browsers play."
    )
    for call in (lambda: CSVLogger("a", video_format="avi"), lambda: write_video(tmp_path / "a.avi", flags())):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            call()
    text = (
        "A .memmap holds the bytes of a video without their shape. Fix: "
        "MemoryMappedTensor.from_filename(path, dtype=torch.uint8, shape=shape)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        read_video(tmp_path / "a.memmap")


@pytest.mark.parametrize(
    ("suffix", "module", "text"),
    [
        (
            "mp4",
            "av",
            "The package av encodes mp4 videos, and is not installed. Fix: pip install 'rlnb[video]', or use the "
            "format 'pt', which needs no package.",
        ),
        (
            "gif",
            "PIL.Image",
            "The package pillow encodes gif videos, and is not installed. Fix: pip install pillow, or use the format "
            "'pt', which needs no package.",
        ),
    ],
)
def test_a_missing_encoder_is_named(tmp_path, monkeypatch, suffix, module, text):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"^{re.escape(text)}$"):
        write_video(tmp_path / f"a.{suffix}", flags())
    with pytest.raises(ImportError, match=text.split()[2] + " decodes"):
        read_video(tmp_path / f"a.{suffix}")
    assert not any(tmp_path.iterdir())


@pytest.fixture
def full_disk(missing):
    """No file of this process may grow beyond 2,000 bytes: the system refuses the write, as on a full disk."""
    if find_spec("resource") is None:
        missing("resource", "limits of a process, which Windows does not have", optional=True)
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("suffix", FORMATS)
def test_on_a_full_disk_nothing_half_is_left(tmp_path, needs_av, full_disk, suffix):
    noise = torch.randint(256, (20, 3, 40, 40), dtype=torch.uint8)
    path = tmp_path / f"a.{suffix}"
    text = (
        f"{str(path)!r} cannot be written: File too large. Nothing was left under that name. Fix: log to another "
        "folder, such as CSVLogger(exp_name, log_dir='runs'), or free space on the disk."
    )
    with pytest.raises(OSError, match=f"^{re.escape(text)}$") as caught:
        write_video(path, noise)
    assert not any(tmp_path.iterdir()) and caught.value.errno is not None


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_write_that_fails_keeps_the_file_that_was_there(tmp_path, needs_av, suffix, monkeypatch):
    path = tmp_path / f"a.{suffix}"
    write_video(path, flags())
    before = path.read_bytes()

    def refuse(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(KeyboardInterrupt):
        write_video(path, flags().flip(0))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
