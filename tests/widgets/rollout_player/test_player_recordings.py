"""A rollout, a recording of its steps and a video of its frames look the same in the player."""

from __future__ import annotations

import io
import re
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, ReplayBuffer, ReplayBufferEnsemble
from rlnb.envs import Compose, GymEnv, TransformedEnv
from rlnb.record import CSVLogger, TensorDictRecorder, VideoRecorder, read_video


def pictures(player):
    """The pictures that the player shows, one for each of its frames, ``[N, H, W, 3]``."""
    found = player.model.frames.pictures
    decoded = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16) for data in found.data]
    return np.stack([decoded[i] for i in found.index])


@pytest.fixture
def recorded(tmp_path):
    """Record one rollout in every way; return it, and a function that gives the path of each recording."""

    def record(*formats):
        loggers = [CSVLogger(name, tmp_path, video_format=name) for name in formats]
        videos = [VideoRecorder(logger, "eval", skip=1) for logger in loggers]
        env = GymEnv("CartPole-v1", from_pixels=True)
        env = TransformedEnv(env, Compose(TensorDictRecorder(tmp_path / "steps", skip=1), *videos))
        rollout = env.rollout(12)
        env.transform.dump()
        return rollout, tmp_path / "steps_0.pt", [tmp_path / f"{name}/videos/eval_0.{name}" for name in formats]

    return record


def test_lossless_recordings_are_the_same_pictures(recorded):
    rollout, steps, videos = recorded("pt", "gif")
    played = RolloutPlayer(rollout)
    expected = pictures(played)
    assert len(expected) == len(rollout) + 1 and played.model.frames.pictures.mime == "image/png"
    for path in (steps, *videos):
        player = RolloutPlayer(path)
        assert (pictures(player) == expected).all()
        assert player.model.length == len(rollout)
    assert (pictures(RolloutPlayer(rollout, frames=read_video(videos[0]))) == expected).all()


def test_the_recording_of_steps_is_played_like_the_rollout(recorded):
    rollout, steps, _ = recorded()
    assert repr(RolloutPlayer(str(steps))) == repr(RolloutPlayer(rollout))


def test_an_mp4_is_nearly_the_same_pictures(recorded, missing):
    if find_spec("av") is None:
        missing("av", "pip install 'rlnb[video]'")
    rollout, _, (video,) = recorded("mp4")
    expected = pictures(RolloutPlayer(rollout))
    shown = pictures(RolloutPlayer(video))
    assert shown.shape == expected.shape
    assert np.abs(shown - expected).mean() < 2
    # The cart and the pole are where they were: few pixels differ by much.
    assert (np.abs(shown - expected).max(-1) > 60).mean() < 0.002


def test_a_recording_is_compared_with_a_rollout(recorded):
    rollout, steps, _ = recorded()
    other = rollout.clone()
    other["pixels"][5:] = 0
    parting = RolloutPlayer(other, compare=steps).model.parting
    assert (parting.t, parting.keys) == (5, (("pixels",),))
    assert RolloutPlayer.compare(steps, rollout).model.parting.t is None


def test_one_frame_is_a_recording(tmp_path):
    torch.save(torch.zeros(1, 3, 16, 16, dtype=torch.uint8), tmp_path / "a.pt")
    assert RolloutPlayer(tmp_path / "a.pt").model.length == 1


@pytest.mark.parametrize(
    ("saved", "error", "text"),
    [
        (
            None,
            FileNotFoundError,
            "There is no recording at {path!r}. Fix: pass a file that TensorDictRecorder wrote, such as 'run_0.pt', or "
            "a video of CSVLogger.",
        ),
        (
            {"a": 1},
            ValueError,
            "'a.pt' holds a dict, which is not a recording. Fix: pass a file that TensorDictRecorder wrote, such as "
            "'run_0.pt', or a video of CSVLogger.",
        ),
        (
            torch.zeros(5, 3, 8, 8),
            ValueError,
            "'a.pt' holds a Tensor, which is not a recording. Fix: pass a file that TensorDictRecorder wrote, such as "
            "'run_0.pt', or a video of CSVLogger.",
        ),
        (
            torch.zeros(2, 5, 3, 16, 16, dtype=torch.uint8),
            ValueError,
            "'a.pt' holds 2 videos, and RolloutPlayer plays one. Fix: RolloutPlayer(TensorDict({{'pixels': "
            "read_video(path)}}, [2, 5])).",
        ),
        (
            b"cut short",
            ValueError,
            "'a.pt' cannot be read; it was cut short, or is not a recording. Fix: record again, with "
            "TensorDictRecorder or VideoRecorder.",
        ),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path, saved, error, text):
    path = tmp_path / "a.pt"
    if isinstance(saved, bytes):
        path.write_bytes(saved)
    elif saved is not None:
        torch.save(saved, path)
    with pytest.raises(error, match=f"^{re.escape(text.format(path=str(path)))}$"):
        RolloutPlayer(path)
    if isinstance(saved, torch.Tensor) and saved.ndim == 5:  # the fix
        assert RolloutPlayer(TensorDict({"pixels": read_video(path)}, [2, 5])).model.total == 2


# Buffers --------------------------------------------------------------------------------------------------------------


def _filled(storage, *batch):
    buffer = ReplayBuffer(storage=storage)
    steps = torch.arange(torch.Size(batch).numel()).reshape(*batch, 1)
    buffer.extend(TensorDict({"next": {"reward": steps.float(), "done": steps % 4 == 3}}, batch))
    return buffer


def test_a_buffer_is_played_in_the_order_of_its_storage():
    player = RolloutPlayer(_filled(LazyTensorStorage(20), 12))
    assert (player.model.length, player.model.notes) == (12, ())
    assert [episode.ret for episode in player.model.episodes] == [6.0, 22.0, 38.0]


def test_of_a_large_buffer_the_first_steps_are_played_and_the_note_says_so():
    player = RolloutPlayer(_filled(LazyTensorStorage(30_000), 30_000))
    assert player.model.length == 10_000
    assert player.model.notes[0] == "Showing the first 10,000 of 30,000 items of the buffer; buffer[i:j] reads others."
    assert player.model.notes[0] in str(player)


def test_items_that_are_trajectories_and_storages_of_several_dimensions_keep_time_last():
    whole = RolloutPlayer(_filled(LazyTensorStorage(3), 3, 4))
    assert (whole.model.total, whole.model.length) == (3, 4)
    several = RolloutPlayer(_filled(LazyTensorStorage(50, ndim=2), 3, 4))
    assert (several.model.total, several.model.length) == (3, 4)
    assert [episode.ret for episode in several.model.episodes] == [6.0, 22.0, 38.0]


def test_an_empty_buffer_and_an_ensemble_cannot_be_played():
    with pytest.raises(ValueError) as error:
        RolloutPlayer(ReplayBuffer(storage=LazyTensorStorage(3)))
    assert str(error.value) == (
        "RolloutPlayer plays what a buffer holds, and it is empty. Fix: buffer.extend(data) first."
    )
    with pytest.raises(TypeError, match="got ReplayBufferEnsemble"):
        RolloutPlayer(ReplayBufferEnsemble(_filled(LazyTensorStorage(20), 12)))
