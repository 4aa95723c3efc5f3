"""AtariDQNExperienceReplay, from compressed arrays on a server to slices of episodes."""

from __future__ import annotations

import errno
import gzip
import io

import numpy as np
import pytest
import torch

from rlnb.data import ReplayBufferEnsemble, SamplerWithoutReplacement, check_ted
from rlnb.data.datasets import download
from rlnb.data.datasets.atari_dqn import AtariDQNExperienceReplay, NextObservationStorage
from rlnb.data.datasets.conversion import ted_steps
from rlnb.envs.transforms import RenameTransform

CAPACITY = 40


def packed(array):
    content = io.BytesIO()
    np.save(content, array)
    return gzip.compress(content.getvalue(), 1)


class Agent:
    """The agent's replay buffer, which is saved when one place is left, as the original one."""

    def __init__(self, lengths, seed=0, padding=3):
        self.rng, self.padding = np.random.default_rng(seed), padding
        self.store = {
            "observation": np.zeros((CAPACITY, 84, 84), np.uint8),
            "action": np.zeros(CAPACITY, np.int32),
            "reward": np.zeros(CAPACITY, np.float32),
            "terminal": np.zeros(CAPACITY, np.uint8),
        }
        self.added, self.saved, self.steps = 0, [], []
        for length in lengths:
            for _ in range(padding):
                self.add(0, 0, 0, 0, real=False)
            for t in range(length):
                frame = self.rng.integers(0, 256, (84, 84)) if t or self.rng.random() < 0.7 else 0
                self.add(frame, self.rng.integers(t == 0, 18), self.rng.integers(-1, 2), t == length - 1)

    def add(self, observation, action, reward, terminal, real=True):
        place = self.added % CAPACITY
        for name, value in zip(self.store, (observation, action, reward, terminal), strict=True):
            self.store[name][place] = value
        if real and place < CAPACITY - 1:
            step = {name: array[place].copy() for name, array in self.store.items()}
            self.steps.append((self.added // CAPACITY, step))
        self.added += 1
        if self.added % CAPACITY == CAPACITY - 1:
            self.saved.append({name: array.copy() for name, array in self.store.items()} | {"add_count": self.added})

    def expected(self):
        return [step for checkpoint, step in self.steps if checkpoint < len(self.saved)]

    def ends(self):
        """Whether each step is the last one of its checkpoint."""
        where = [checkpoint for checkpoint, _ in self.steps if checkpoint < len(self.saved)]
        return [a != b for a, b in zip(where, [*where[1:], None], strict=True)]

    def put(self, server, name):
        for number, arrays in enumerate(self.saved):
            for array, values in arrays.items():
                prefix = "" if array == "add_count" else "$store$_"
                server.put(f"{name}/replay_logs/{prefix}{array}_ckpt.{number}.gz", packed(values))


@pytest.fixture
def make(server, tmp_path, monkeypatch):
    def make(lengths=(7, 1, 12, 9, 15, 20, 4, 30), name="Pong/5", padding=3, **kwargs):
        agent = Agent(lengths, padding=padding)
        agent.put(server, name)
        monkeypatch.setattr(AtariDQNExperienceReplay, "url", server.url)
        monkeypatch.setattr(AtariDQNExperienceReplay, "_max_runs", len(agent.saved))
        return AtariDQNExperienceReplay(name, root=tmp_path, **kwargs), agent

    return make


def check_steps(data, agent):
    """All steps are those that the agent stored, with the next frames where there are any."""
    expected = agent.expected()
    assert len(data) == len(expected)
    for name, values in (
        ("observation", data["observation"]),
        ("action", data["action"]),
        ("reward", data["next", "reward"].squeeze(-1)),
        ("terminal", data["next", "terminated"].squeeze(-1)),
    ):
        assert np.array_equal(values.numpy(), np.stack([step[name] for step in expected])), name
    ends, terminal = torch.tensor(agent.ends()), data["next", "terminated"].squeeze(-1)
    assert torch.equal(data["next", "truncated"].squeeze(-1), ends & ~terminal)
    assert torch.equal(data["next", "done"].squeeze(-1), ends | terminal)
    after = data["next", "observation"]
    assert not after[terminal].any()
    assert torch.equal(after[ends & ~terminal], data["observation"][ends & ~terminal])
    goes_on = ~(ends | terminal)
    assert torch.equal(after[goes_on], data["observation"].roll(-1, 0)[goes_on])


@pytest.mark.parametrize("padding", [3, 0])
@pytest.mark.parametrize("num_procs", [0, 2])
def test_the_whole_path(make, num_procs, padding, monkeypatch):
    monkeypatch.setattr("rlnb.data.datasets.atari_dqn.CHUNK_BYTES", 84 * 84 * 16)
    dataset, agent = make(num_procs=num_procs, padding=padding)
    data = dataset[:]
    check_ted(data).raise_if_broken()
    check_steps(data, agent)
    assert data["action"].dtype == torch.int32 and data["next", "reward"].dtype == torch.float32
    assert len(agent.saved) > 1 and [path.name for path in dataset.root.glob("Pong/[!.]*")] == ["5"]


def test_it_opens_again_without_a_network(make, server, tmp_path):
    dataset, agent = make()
    server.requests.clear()
    again = AtariDQNExperienceReplay("Pong/5", root=tmp_path, download=False)
    assert server.requests == []
    check_steps(again[:], agent)
    assert again.data_path == tmp_path / "Pong" / "5" and dataset.dataset_id == "Pong/5"


def test_frames_are_stored_once(make):
    dataset, _ = make()
    size = sum(path.stat().st_size for path in dataset.data_path.rglob("*"))
    assert size < 1.2 * len(dataset) * 84 * 84


def test_samples_and_single_items(make):
    dataset, _ = make(batch_size=16)
    everything = dataset[:]
    sample = dataset.sample()
    assert sample.batch_size == (16,)
    for key in ("observation", ("next", "observation"), ("next", "reward")):
        assert torch.equal(sample[key], everything[key][sample["index"]])
    for index in (0, 5, -1):
        assert torch.equal(dataset[index]["next", "observation"], everything["next", "observation"][index])
    for index in (slice(3, 9), torch.tensor([4, 2]), torch.tensor([[1, 2, 3], [4, 5, 6]])):
        found, wanted = dataset[index], everything["next", "observation"][index]
        assert torch.equal(found["next", "observation"], wanted)


@pytest.mark.parametrize("options", [{"slice_len": 4}, {"num_slices": 4}])
def test_slices_of_episodes(make, options):
    dataset, _ = make(batch_size=16, **options)
    episodes, everything = dataset.episodes, dataset[:]
    for _ in range(5):
        sample = dataset.sample().reshape(4, 4)
        assert (sample["index"].diff(dim=1) == 1).all()
        assert (episodes[sample["index"]] == episodes[sample["index"][:, :1]]).all()
        assert torch.equal(sample["next", "observation"], everything["next", "observation"][sample["index"]])
        assert sample["next", "truncated"][:, -1].all()


def test_short_episodes_and_slices_without_replacement(make):
    dataset, _ = make(batch_size=64, slice_len=16, strict_length=False, replacement=False)
    lengths = dataset.episodes.bincount()
    assert lengths.min() < 16
    episodes = [episode for data in dataset for episode in dataset.episodes[data["index"]].unique().tolist()]
    assert sorted(episodes) == list(range(len(lengths)))
    with pytest.raises(ValueError, match="slice"):
        make(name="Pong/4", batch_size=64, slice_len=50)[0].sample()


def test_a_sampler_of_ones_own_comes_first(make):
    dataset, _ = make(batch_size=10, slice_len=5, sampler=SamplerWithoutReplacement(drop_last=True))
    assert sum(len(data) for data in dataset) == len(dataset) // 10 * 10


def test_transforms_and_ensembles(make):
    pong, _ = make(batch_size=8, slice_len=4)
    krull, _ = make(name="Krull/2", batch_size=8, slice_len=4, transform=RenameTransform(["action"], ["move"]))
    assert "move" in krull.sample().keys()  # noqa: SIM118
    both = ReplayBufferEnsemble(pong, pong, batch_size=16, sample_from_all=True)
    assert both.sample()["next", "observation"].shape == (2, 8, 84, 84)


def half(data):
    data["observation"] = data["observation"][:, ::2, ::2]
    return data


def test_preprocessed_frames_have_next_ones(make, tmp_path):
    dataset, _ = make()
    before = dataset[:]
    dataset.preprocess(half, num_workers=0)
    for found in (dataset, AtariDQNExperienceReplay("Pong/5", root=tmp_path)):
        assert torch.equal(found[:]["next", "observation"], before["next", "observation"][:, ::2, ::2])


def test_names(tmp_path):
    names = AtariDQNExperienceReplay.available_datasets
    assert len(names) == 250 and "Pong/5" in names
    with pytest.raises(ValueError, match="Did you mean 'Pong/5'"):
        AtariDQNExperienceReplay("Pong/6", root=tmp_path)


def test_no_split_trajs(tmp_path):
    with pytest.raises(ValueError) as caught:
        AtariDQNExperienceReplay("Pong/5", root=tmp_path, split_trajs=True)
    assert str(caught.value) == (
        "AtariDQNExperienceReplay stores each frame once, and does not split its episodes. Fix: "
        'AtariDQNExperienceReplay("Pong/5", slice_len=64), which samples parts of episodes.'
    )


@pytest.mark.parametrize("array", ["action", "observation"])
def test_arrays_that_do_not_fit_together(server, tmp_path, monkeypatch, array):
    agent = Agent((30, 30))
    agent.saved[0][array] = agent.saved[0][array][:-5]
    agent.put(server, "Pong/1")
    monkeypatch.setattr(AtariDQNExperienceReplay, "url", server.url)
    monkeypatch.setattr(AtariDQNExperienceReplay, "_max_runs", 1)
    with pytest.raises(ValueError, match=r"arrays of different shapes|are 35 frames for 39 steps"):
        AtariDQNExperienceReplay("Pong/1", root=tmp_path)


def test_a_checkpoint_of_no_steps(server, tmp_path, monkeypatch):
    agent = Agent((30, 30))
    agent.saved[0] = {name: value if isinstance(value, int) else value[:0] for name, value in agent.saved[0].items()}
    agent.put(server, "Pong/1")
    monkeypatch.setattr(AtariDQNExperienceReplay, "url", server.url)
    monkeypatch.setattr(AtariDQNExperienceReplay, "_max_runs", 1)
    with pytest.raises(ValueError, match=r"^Checkpoint 0 of Pong/1 has no steps, or no one count of them\.$"):
        AtariDQNExperienceReplay("Pong/1", root=tmp_path)


def test_damaged_files(server, tmp_path, monkeypatch):
    agent = Agent((30, 30))
    agent.put(server, "Pong/1")
    path = "Pong/1/replay_logs/$store$_observation_ckpt.0.gz"
    server.put(path, server.resources[path].content[:-10])
    monkeypatch.setattr(AtariDQNExperienceReplay, "url", server.url)
    monkeypatch.setattr(AtariDQNExperienceReplay, "_max_runs", 1)
    for num_procs in (0, 1):
        with pytest.raises(ValueError, match="is damaged or cut off"):
            AtariDQNExperienceReplay("Pong/1", root=tmp_path, num_procs=num_procs)


def test_a_full_disk_while_it_is_downloaded(make, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download.os, "fsync", full)
    with pytest.raises(OSError) as caught:
        make()
    assert caught.value.errno == errno.ENOSPC and caught.value.strerror.startswith("The disk is full: ")
    monkeypatch.undo()
    dataset, agent = make()
    check_steps(dataset[:], agent)


def test_the_storage_alone():
    observation = torch.arange(1.0, 6.0)[:, None]
    ends = torch.tensor([False, True, False, False, False]), torch.tensor([False, False, False, True, False])
    data = ted_steps({"observation": observation}, {}, reward=torch.zeros(5), terminated=ends[0], truncated=ends[1])
    storage = NextObservationStorage(data)
    assert storage[:]["next", "observation"].flatten().tolist() == [2, 0, 4, 4, 5]
    assert storage.gather(torch.tensor([4, 1, 0]))["next", "observation"].flatten().tolist() == [5, 0, 2]
    assert ("next", "observation") not in storage.columns
