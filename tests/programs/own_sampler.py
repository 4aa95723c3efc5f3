"""A user-defined sampler, writer and storage."""

import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from rlnb.data.replay_buffers import RandomSampler, Sampler, TensorDictRoundRobinWriter


class Newest(Sampler):
    """Always the transitions written last."""

    def sample(self, storage, batch_size):
        return torch.arange(len(storage) - batch_size, len(storage)), {}

    def _empty(self):
        pass

    def dumps(self, path):
        pass

    def loads(self, path):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


class Counting(RandomSampler):
    """Counts what it draws."""

    def __init__(self):
        super().__init__()
        self.drawn = 0

    def sample(self, storage, batch_size):
        index, info = super().sample(storage, batch_size)
        self.drawn += batch_size
        return index, info


class Noting(TensorDictRoundRobinWriter):
    """Notes the places that it writes to."""

    def __init__(self):
        super().__init__()
        self.places = []

    def extend(self, data):
        index = super().extend(data)
        self.places.append(index)
        return index


def main() -> None:
    torch.manual_seed(0)
    data = TensorDict({"x": torch.arange(20)}, [20])
    buffer = ReplayBuffer(storage=LazyTensorStorage(50), sampler=Newest(), batch_size=5)
    buffer.extend(data)
    assert buffer.sample()["x"].tolist() == [15, 16, 17, 18, 19]
    writer, sampler = Noting(), Counting()
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(15), sampler=sampler, writer=writer, batch_size=4)
    buffer.extend(data)
    assert writer.places[0].tolist() == [*range(15), *range(5)]
    for _ in range(3):
        sample = buffer.sample()
        assert (sample["x"] % 15 == sample["index"]).all()
    assert sampler.drawn == 12


if __name__ == "__main__":
    main()
