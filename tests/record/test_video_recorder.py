"""VideoRecorder: each frame once and in order, grids, limits, and invalid input."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import NonTensorData, TensorDict

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, ReplayBuffer
from rlnb.envs import Compose, GymEnv, StepCounter, ToTensorImage, TransformedEnv, UnsqueezeTransform, check_env_specs
from rlnb.record import CSVLogger, VideoRecorder, read_video
from rlnb.record.loggers import Logger
from rlnb.record.video import image_grid
from tests.record.counting import Counting


class Memory(Logger):
    """A logger that keeps the videos."""

    def __init__(self):
        super().__init__("memory", "")
        self.videos = []

    def log_scalar(self, name, value, step=None): ...

    def log_hparams(self, cfg): ...

    def log_video(self, name, video, step=None, **kwargs):
        self.videos.append((name, video, step, kwargs))

    def values(self):
        """The value of the first pixel of each frame of the last video."""
        return self.videos[-1][1][0, :, 0, 0, 0].tolist()


@pytest.fixture
def logger():
    return Memory()


def states(rollout) -> Iterator[torch.Tensor]:
    """The images of one env in the order in which it returned them."""
    for t in range(len(rollout)):
        if t == 0 or rollout["next", "done"][t - 1]:
            yield rollout["pixels"][t]
        yield rollout["next", "pixels"][t]


@pytest.mark.parametrize("shape", [(12, 16, 3), (3, 12, 16), (12, 16, 1), (1, 12, 16)])
def test_each_reset_and_each_step_is_a_frame(logger, shape):
    env = TransformedEnv(Counting(shape=shape), VideoRecorder(logger, "eval", skip=1))
    rollout = env.rollout(10, break_when_any_done=False)
    env.transform.dump()
    ((name, video, step, options),) = logger.videos
    assert (name, step, options) == ("eval", None, {})
    channels = -1 if shape[-1] in (1, 3) else -3
    expected = torch.stack(list(states(rollout))).movedim(channels, -3)
    assert torch.equal(video, expected[None])
    assert logger.values() == [10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 30, 31, 32]


@pytest.mark.parametrize("by_rows", [True, False])
def test_the_fast_rollouts_of_gymnasium_envs_are_recorded_alike(logger, by_rows):
    env = GymEnv("CartPole-v1", from_pixels=True)
    env.set_seed(0)
    env = TransformedEnv(env, VideoRecorder(logger, "eval", skip=1))
    assert env._fills_rows
    torch.manual_seed(0)
    rollout = env.rollout(40, break_when_any_done=False, callback=None if by_rows else lambda step: None)
    assert rollout["next", "done"].sum() > 0
    env.transform.dump()
    assert torch.equal(logger.videos[0][1][0], torch.stack(list(states(rollout))).movedim(-1, -3))


@given(st.integers(1, 6), st.integers(1, 12))
def test_skip_records_each_nth_frame_from_the_first(skip, steps):
    logger = Memory()
    env = TransformedEnv(Counting(length=100), VideoRecorder(logger, "eval", skip=skip))
    env.rollout(steps)
    env.transform.dump()
    assert logger.values() == list(range(10, 11 + steps, skip))


def test_in_an_env_the_default_skips_every_other_frame(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval"))
    env.rollout(4)
    env.transform.dump()
    assert logger.values() == [10, 12, 14]


def test_dump_clears(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", skip=2))
    recorder = env.transform
    recorder.dump()
    assert logger.videos == [] and (len(recorder), recorder.nbytes) == (0, 0)
    env.rollout(3)
    assert (len(recorder), recorder.nbytes) == (2, 2 * 12 * 16 * 3)
    recorder.dump(suffix="first", step=7)
    assert (len(recorder), recorder.nbytes) == (0, 0)
    recorder.dump()
    env.rollout(2)
    recorder.dump()
    assert [(name, step) for name, _, step, _ in logger.videos] == [("eval_first", 7), ("eval", None)]
    assert logger.values() == [20, 22], "the next video begins with its first frame"


def test_a_video_keeps_its_frames_after_the_next_one(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", skip=1))
    for _ in range(2):
        env.rollout(2)
        env.transform.dump()
    first, second = (video[0, :, 0, 0, 0].tolist() for _, video, *_ in logger.videos)
    assert (first, second) == ([10, 11, 12], [20, 21, 22])


def test_frames_are_copies(logger):
    env = TransformedEnv(GymEnv("CartPole-v1", from_pixels=True), VideoRecorder(logger, "eval", skip=1))
    rollout = env.rollout(3)
    expected = torch.stack(list(states(rollout))).movedim(-1, -3).clone()
    rollout["pixels"].zero_()
    rollout["next", "pixels"].zero_()
    env.transform.dump()
    assert torch.equal(logger.videos[0][1][0], expected)


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
def test_a_batch_is_a_grid_in_which_each_env_is_reset_alone(logger, batch):
    env = TransformedEnv(Counting(batch, length=2), VideoRecorder(logger, "eval", skip=1))
    env.rollout(4, break_when_any_done=False)
    env.transform.dump()
    (video,) = logger.videos[0][1]
    assert torch.equal(video[0], image_grid(torch.full((env.batch_size.numel(), 3, 12, 16), 10, dtype=torch.uint8)))
    n = env.batch_size.numel()
    cells = [video[:, 0, 12 * (i // 2), 16 * (i % 2)].tolist() for i in range(n)]
    # Env 0 is done after two steps and reset, then env 1, and so on: meanwhile the others stand still.
    assert cells[0] == [10, 11, 12, 20, 21, 21, 22]
    assert cells[1] == [10, 11, 12, 12, 13, 20, 21]
    assert cells[2] == [10, 11, 12, 12, 13, 13, 14]


def test_center_crop(logger):
    env = TransformedEnv(GymEnv("CartPole-v1", from_pixels=True), VideoRecorder(logger, "eval", skip=1, center_crop=90))
    rollout = env.rollout(3)
    env.transform.dump()
    expected = torch.stack(list(states(rollout)))[:, 155:245, 255:345].movedim(-1, -3)
    assert torch.equal(logger.videos[0][1][0], expected)


def test_out_keys_copy_the_images(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", out_keys=["shown"]))
    check_env_specs(env)
    rollout = env.rollout(3)
    assert torch.equal(rollout["shown"], rollout["pixels"]) and env.observation_spec["shown"].dtype is torch.uint8


def test_options_reach_the_logger(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", fps=12, caption="mine"))
    env.rollout(2)
    env.transform.dump()
    assert logger.videos[0][3] == {"fps": 12, "caption": "mine"}


def test_a_chain_dumps_each_recorder(logger):
    chain = Compose(VideoRecorder(logger, "a"), StepCounter(), Compose(VideoRecorder(logger, "b")))
    env = TransformedEnv(Counting(), chain)
    env.rollout(2)
    env.transform.dump(step=3)
    assert [(name, step) for name, _, step, _ in logger.videos] == [("a", 3), ("b", 3)]


def test_the_first_example_of_the_documentation(tmp_path, monkeypatch, missing):
    if find_spec("av") is None:
        missing("av", "pip install 'rlnb[video]'")
    monkeypatch.chdir(tmp_path)
    logger = CSVLogger("dummy-exp", video_format="mp4")
    env = GymEnv("CartPole-v1", from_pixels=True)
    env = env.append_transform(VideoRecorder(logger, tag="rendered", in_keys=["pixels"]))
    rollout = env.rollout(10)
    assert not any(tmp_path.iterdir()), "nothing is written before dump()"
    env.transform.dump()  # Save the video and clear cache
    video = read_video("csv_logs/dummy-exp/videos/rendered_0.mp4")
    assert video.shape == (len(rollout) // 2 + 1, 3, 400, 600) and len(env.transform) == 0


def test_a_callback_records_what_a_recorder_records(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", skip=1))
    frames = []
    env.rollout(3, callback=lambda env, step: frames.append(step["next", "pixels"]))
    env.transform.dump()
    assert torch.equal(torch.stack(frames).movedim(-1, -3), logger.videos[0][1][0, 1:])


def test_a_collector_records_its_env(logger):
    env = TransformedEnv(Counting(length=100), VideoRecorder(logger, "eval", skip=1))
    collector = Collector(env, None, frames_per_batch=5, total_frames=10)
    for _ in collector:
        env.transform.dump()
    collector.shutdown()
    first, second = (video[0, :, 0, 0, 0].remainder(10).tolist() for _, video, *_ in logger.videos)
    assert first[:6] == [0, 1, 2, 3, 4, 5] and second == [6, 7, 8, 9, 0]


def test_it_changes_nothing(logger):
    plain, recorded = Counting(), TransformedEnv(Counting(), VideoRecorder(logger, "eval"))
    check_env_specs(recorded)
    assert recorded.observation_spec == plain.observation_spec
    for env in (plain, recorded):
        env.set_seed(0)
    first, second = (env.rollout(7, policy=lambda td: td.set("action", torch.zeros(1))) for env in (plain, recorded))
    assert (first == second).all()


def test_without_an_env_each_image_is_a_frame(logger):
    images = torch.randint(256, (5, 12, 16, 3), dtype=torch.uint8)
    recorder = VideoRecorder(logger, "eval")
    assert recorder(TensorDict({"pixels": images}, [5]))["pixels"] is not None
    recorder(TensorDict({"pixels": images[:2]}, [2]))
    recorder.dump()
    assert torch.equal(logger.videos[0][1][0], torch.cat([images, images[:2]]).movedim(-1, 1))
    recorder = VideoRecorder(logger, "eval", make_grid=True)
    recorder(TensorDict({"pixels": images}, [5]))
    recorder.dump()
    assert torch.equal(logger.videos[1][1][0, 0], image_grid(images.movedim(-1, 1)))


def test_samples_of_a_buffer_are_recorded(logger):
    recorder = VideoRecorder(logger, "eval", in_keys=[("next", "pixels")])
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), transform=recorder, batch_size=4)
    rollout = Counting().rollout(6, break_when_any_done=False)
    buffer.extend(rollout)
    sample = buffer.sample()
    recorder.dump()
    assert logger.values() == sample["next", "pixels"][:, 0, 0, 0].tolist()


def test_arrays_in_non_tensor_data_are_images(logger):
    recorder = VideoRecorder(logger, "eval")
    data = TensorDict({"pixels": NonTensorData(np.full((12, 16, 3), 7, np.uint8))}, [])
    recorder(data)
    recorder.dump()
    assert logger.values() == [7]


def test_memory_is_bounded_with_a_warning(logger):
    size = 12 * 16 * 3
    recorder = VideoRecorder(logger, "eval", skip=1, max_bytes=5 * size + 1)
    env = TransformedEnv(Counting(length=100), recorder)
    text = (
        "VideoRecorder 'eval' keeps 5 frames, 2,880 bytes, and the next one would exceed its limit, max_bytes=2,881. "
        "It records no more until dump() is called. Fix: call env.transform.dump() more often, record less with skip= "
        "or smaller images, or raise max_bytes."
    )
    with pytest.warns(RuntimeWarning, match=f"^{re.escape(text)}$") as caught:
        env.rollout(20)
    assert len(caught) == 1 and (len(recorder), recorder.nbytes) == (5, 5 * size)
    env.rollout(20)  # it warned already
    recorder.dump()
    assert logger.values() == [10, 11, 12, 13, 14]
    env.rollout(3)
    recorder.dump()
    assert logger.values() == [30, 31, 32, 33]


def test_not_even_one_frame_may_fit(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", max_bytes=10))
    with pytest.warns(RuntimeWarning, match="keeps 0 frames, 0 bytes"):
        env.rollout(3)
    env.transform.dump()
    assert logger.videos == []


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 3))
def test_law_what_is_kept_is_the_beginning(frames, room, every):
    from rlnb.record import recorder

    store = recorder._Frames(room * 4)
    kept = [store.offer(np.full((2, 2), i, np.uint8), every) for i in range(frames)]
    wanted = list(range(0, frames, every))
    assert store.stacked()[:, 0, 0].tolist() == wanted[:room]
    assert kept.count(False) == (len(wanted) > room) and store.nbytes == 4 * len(wanted[:room])


def test_frames_that_span_blocks_stay_in_order(logger, monkeypatch):
    from rlnb.record import recorder

    monkeypatch.setattr(recorder, "_BLOCK", 3 * 12 * 16 * 3)
    env = TransformedEnv(Counting(length=100), VideoRecorder(logger, "eval", skip=1))
    for steps in (9, 4, 12):
        env.rollout(steps)
        env.transform.dump()
        first = 10 * len(logger.videos)
        assert logger.values() == list(range(first, first + steps + 1))


def test_a_logger_that_fails_leaves_the_frames(tmp_path):
    (tmp_path / "file").write_text("in the way")
    recorder = VideoRecorder(CSVLogger("run", tmp_path / "file"), "eval", skip=1)
    env = TransformedEnv(Counting(), recorder)
    env.rollout(3)
    with pytest.raises(NotADirectoryError):
        recorder.dump()
    assert len(recorder) == 4
    recorder.logger = Memory()
    recorder.dump()
    assert recorder.logger.values() == [10, 11, 12, 13]


def test_copies_record_a_video_of_their_own(logger):
    env = TransformedEnv(Counting(), Compose(VideoRecorder(logger, "eval", skip=1), StepCounter()))
    env.rollout(3)
    recorder = env.transform[0]
    assert (len(recorder.clone()), len(env.transform[1].parent.transform[0])) == (0, 0)
    env.transform[1].parent.rollout(2)
    assert len(recorder) == 4
    assert len(pickle.loads(pickle.dumps(recorder.clone()))) == 0


REFUSED = [
    (
        lambda logger: VideoRecorder("run", "eval"),
        TypeError,
        "VideoRecorder takes a logger that can log videos, got 'run'. "
        "Fix: VideoRecorder(CSVLogger('run', video_format='mp4'), tag='video').",
    ),
    (
        lambda logger: VideoRecorder(logger, "eval", in_keys=["a", "b"]),
        ValueError,
        "VideoRecorder records one entry, got in_keys=['a', 'b']. "
        "Fix: one VideoRecorder for each entry, each with a tag of its own.",
    ),
    (lambda logger: VideoRecorder(logger, "eval", skip=0), ValueError, "skip must be a positive integer, got 0."),
    (
        lambda logger: VideoRecorder(logger, "eval", center_crop=1.5),
        ValueError,
        "center_crop must be a positive integer, got 1.5.",
    ),
    (
        lambda logger: VideoRecorder(logger, "eval", max_bytes=-1),
        ValueError,
        "max_bytes must be a positive integer, got -1.",
    ),
    (
        lambda logger: TransformedEnv(Counting(), Compose(ToTensorImage(), VideoRecorder(logger, "eval"))).reset(),
        TypeError,
        "VideoRecorder 'eval' records images of dtype torch.uint8, from 0 to 255, and 'pixels' has torch.float32. "
        "Likely cause: it comes after ToTensorImage. Fix: put it before that transform, as in "
        "Compose(VideoRecorder(logger, tag), ToTensorImage()).",
    ),
    (
        lambda logger: TransformedEnv(Counting(shape=(12, 16)), VideoRecorder(logger, "eval")).reset(),
        ValueError,
        "VideoRecorder 'eval' records images [..., H, W, C] or [..., C, H, W] with 1 or 3 channels, and 'pixels' has "
        "the dimensions [12, 16]. Fix: name the entry with the images, in_keys=['pixels'], or add a channel with "
        "UnsqueezeTransform.",
    ),
    (
        lambda logger: TransformedEnv(Counting((3,), shape=(12, 16)), VideoRecorder(logger, "eval")).reset(),
        ValueError,
        "VideoRecorder 'eval' records images [..., H, W, C] or [..., C, H, W] with 1 or 3 channels, and 'pixels' has "
        "the dimensions [3, 12, 16], 1 of them of the batch. Fix: name the entry with the images, in_keys=['pixels'], "
        "or add a channel with UnsqueezeTransform.",
    ),
    (
        lambda logger: TransformedEnv(Counting((3,)), VideoRecorder(logger, "eval", make_grid=False)).reset(),
        ValueError,
        "VideoRecorder 'eval' records one image a step with make_grid=False, and got a batch of 3, of shape [3, 12, "
        "16, 3]. Fix: make_grid=True, which lays them out as a grid, or record one env of the batch alone.",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_an_object_that_is_not_a_video_is_rejected(logger, call, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call(logger)


def test_the_fix_for_images_without_channels(logger):
    chain = Compose(UnsqueezeTransform(-1, in_keys=["pixels"]), VideoRecorder(logger, "eval", skip=1))
    env = TransformedEnv(Counting(shape=(12, 16)), chain)
    env.rollout(2)
    env.transform.dump()
    assert logger.videos[0][1].shape == (1, 3, 1, 12, 16)


def test_a_changing_shape_is_refused_and_the_frames_stay(logger):
    recorder = VideoRecorder(logger, "eval")
    recorder(TensorDict({"pixels": torch.zeros(12, 16, 3, dtype=torch.uint8)}))
    text = (
        "VideoRecorder 'eval' records images of one shape, and 'pixels' changes from [12, 16, 3] to [12, 18, 3]. "
        "Fix: scale them to one size before it, with Resize or the preproc of PixelRenderTransform, or call dump() in "
        "between."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        recorder(TensorDict({"pixels": torch.zeros(12, 18, 3, dtype=torch.uint8)}))
    assert len(recorder) == 1
    recorder.dump()
    recorder(TensorDict({"pixels": torch.zeros(12, 18, 3, dtype=torch.uint8)}))
    assert len(recorder) == 1


def test_a_missing_entry_is_named(logger):
    env = TransformedEnv(Counting(), VideoRecorder(logger, "eval", in_keys=["image"]))
    with pytest.raises(KeyError, match="image"):
        env.rollout(2)
