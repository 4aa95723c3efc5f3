"""TensorDictRecorder: a file that equals the rollout, exclusions, limits and invalid input."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import check_ted
from rlnb.envs import Compose, GymEnv, RenameTransform, SerialEnv, StepCounter, TransformedEnv, check_env_specs
from rlnb.record import TensorDictRecorder
from tests.pairwise import sampled
from tests.record.counting import Counting

ENVS = {
    "single": lambda: GymEnv("CartPole-v1"),
    "batched": lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")),
    "torch": lambda: Counting((3,), length=2),
}


def same(a, b):
    keys = set(a.keys(True, True))
    return keys == set(b.keys(True, True)) and bool((a == b).all()) and a.names == b.names


@pytest.mark.parametrize(("env", "goes_on", "counts"), sampled(ENVS, [True, False], [True, False]))
def test_all_steps_of_a_rollout_are_the_rollout(tmp_path, env, goes_on, counts):
    chain = [StepCounter()] if counts else []
    env = TransformedEnv(env(), Compose(*chain, TensorDictRecorder(tmp_path / "run", skip=1)))
    rollout = env.rollout(40, break_when_any_done=not goes_on)
    env.transform.dump()
    recording = torch.load(tmp_path / "run_0.pt", weights_only=True)
    assert same(recording, rollout)
    assert check_ted(recording).ok


def test_it_changes_nothing(tmp_path):
    env = TransformedEnv(Counting(), TensorDictRecorder(tmp_path / "run"))
    check_env_specs(env)
    assert env.output_spec == Counting().output_spec


def test_later_transforms_do_not_change_what_was_recorded(tmp_path):
    recorder = TensorDictRecorder(tmp_path / "run", skip=1)
    env = TransformedEnv(Counting(), Compose(recorder, RenameTransform(["pixels"], ["image"])))
    rollout = env.rollout(3)
    env.transform.dump()
    recording = torch.load(tmp_path / "run_0.pt")
    assert torch.equal(recording["next", "pixels"], rollout["next", "image"])
    assert ("next", "image") not in recording.keys(True)


def test_the_recording_is_a_copy(tmp_path):
    env = TransformedEnv(Counting(), TensorDictRecorder(tmp_path / "run", skip=1))
    rollout = env.rollout(3, return_contiguous=False)
    expected = rollout["next", "pixels"].clone()
    for step in rollout.tensordicts:
        step["next", "pixels"].zero_()
    env.transform.dump()
    assert torch.equal(torch.load(tmp_path / "run_0.pt")["next", "pixels"], expected)


@pytest.mark.parametrize(
    ("skip", "skip_reset", "expected"),
    [
        (1, True, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
        (4, True, [0, 0, 0]),
        (3, True, [0, 3, 2, 1]),
        (3, False, [0, 3, 0, 2, 0, 1]),
        (100, False, [0, 0, 0]),
        (100, True, [0]),
    ],
)
def test_which_steps_are_recorded(tmp_path, skip, skip_reset, expected):
    env = TransformedEnv(Counting(), TensorDictRecorder(tmp_path / "run", skip_reset=skip_reset, skip=skip))
    env.rollout(10, break_when_any_done=False)
    env.transform.dump()
    pixels = torch.load(tmp_path / "run_0.pt")["pixels"][:, 0, 0, 0]
    assert pixels.remainder(10).tolist() == expected


def test_only_the_entries_that_are_named(tmp_path):
    env = TransformedEnv(Counting(), TensorDictRecorder(tmp_path / "run", skip=1, in_keys=["pixels", "reward"]))
    rollout = env.rollout(4)
    env.transform.dump()
    recording = torch.load(tmp_path / "run_0.pt")
    assert set(recording.keys(True, True)) == {"pixels", ("next", "pixels"), ("next", "reward")}
    assert torch.equal(recording["next", "reward"], rollout["next", "reward"])
    env = TransformedEnv(Counting(), TensorDictRecorder(tmp_path / "run", in_keys=["image"]))
    with pytest.raises(KeyError, match="image"):
        env.rollout(2)


def test_names_of_files(tmp_path):
    env = TransformedEnv(Counting(), TensorDictRecorder(tmp_path / "run"))
    for options in ({}, {}, {"suffix": "last"}, {"step": 70}):
        env.rollout(2)
        env.transform.dump(**options)
    env.transform.dump()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run_0.pt", "run_1.pt", "run_70.pt", "run_last.pt"]


def test_memory_is_bounded_with_a_warning(tmp_path):
    recorder = TensorDictRecorder("run", skip=1, max_bytes=4_000)
    env = TransformedEnv(Counting(length=100), recorder)
    with pytest.warns(RuntimeWarning) as caught:
        env.rollout(20)
    kept, nbytes = len(recorder), recorder.nbytes
    step = 2 * (12 * 16 * 3 + 1 + 1) + 4 + 4  # pixels, done and terminated twice, action, reward
    assert (kept, nbytes) == (4_000 // step, 4_000 // step * step)
    text = (
        f"TensorDictRecorder 'run' keeps {kept} steps, {nbytes:,} bytes, and the next one would exceed its limit, "
        "max_bytes=4,000. It records no more until dump() is called. Fix: call env.transform.dump() more often, record "
        "less with skip= or smaller images, or raise max_bytes."
    )
    assert [str(warning.message) for warning in caught] == [text]
    recorder.out_file_base = str(tmp_path / "run")
    recorder.dump()
    assert len(torch.load(tmp_path / "run_0.pt")) == kept
    env.rollout(2)
    assert len(recorder) == 2


def test_a_file_that_cannot_be_written_leaves_the_steps(tmp_path):
    recorder = TensorDictRecorder(tmp_path / "missing" / "run", skip=1)
    TransformedEnv(Counting(), recorder).rollout(3)
    with pytest.raises(FileNotFoundError, match=r"cannot be written: No such file or directory\. Nothing was left"):
        recorder.dump()
    assert len(recorder) == 3
    recorder.out_file_base = str(tmp_path / "run")
    recorder.dump()
    assert (tmp_path / "run_0.pt").exists()


def test_what_is_refused():
    for name in ("skip", "max_bytes"):
        with pytest.raises(ValueError, match=f"^{name} must be a positive integer, got 0\\.$"):
            TensorDictRecorder("run", **{name: 0})
    text = "TensorDictRecorder records the steps of its env"
    with pytest.raises(NotImplementedError, match=re.escape(text)):
        TensorDictRecorder("run")(TensorDict({}, []))
