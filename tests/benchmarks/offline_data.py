"""Times datasets of one library; prints JSON of the best seconds of each case, and of the megabytes of the files.

The arguments are the library, how often to try each case, and the folder in which rlnb makes the dataset, which the
other library opens as a memory map. The seconds of conversions are those of the process on the CPU.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STEPS, EPISODE, BATCH = 400_000, 1000, 256
NAME, FILE = "halfcheetah-medium-v2", "halfcheetah_medium-v2.hdf5"


def best(
    calls: int, rounds: int, action: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """The seconds of one call, in the best round."""
    found = []
    for _ in range(rounds):
        start = clock()
        for _ in range(calls):
            action()
        found.append((clock() - start) / calls)
    return min(found)


def write_d4rl(path: Path) -> None:
    """Write a file of D4RL: half of it are observations."""
    import h5py
    import numpy as np

    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["observations"] = rng.random((STEPS, 60), np.float32)
        file["actions"] = rng.random((STEPS, 8), np.float32)
        file["rewards"] = rng.random(STEPS, np.float32)
        file["terminals"] = np.zeros(STEPS, bool)
        file["timeouts"] = np.arange(STEPS) % EPISODE == EPISODE - 1
        file["infos/qpos"] = rng.random((STEPS, 15))
        file["infos/qvel"] = rng.random((STEPS, 14))


def write_minari(folder: Path) -> None:
    """Write the same in episodes, as Minari does."""
    import h5py
    import numpy as np

    folder.mkdir(parents=True)
    space = {"type": "Box", "dtype": "float32", "shape": [60], "low": [-1.0] * 60, "high": [1.0] * 60}
    about = {"observation_space": json.dumps(space), "action_space": json.dumps(space), "data_format": "hdf5"}
    folder.joinpath("metadata.json").write_text(json.dumps(about))
    rng = np.random.default_rng(0)
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for number in range(STEPS // EPISODE):
            group = file.create_group(f"episode_{number}")
            group["observations"] = rng.random((EPISODE + 1, 60), np.float32)
            group["actions"] = rng.random((EPISODE, 8), np.float32)
            group["rewards"] = rng.random(EPISODE)
            group["terminations"] = np.zeros(EPISODE, bool)
            group["truncations"] = np.arange(EPISODE) == EPISODE - 1
            group["infos/qpos"] = rng.random((EPISODE + 1, 15))
            group["infos/qvel"] = rng.random((EPISODE + 1, 14))


def bare_copy(source: Path, target: Path) -> None:
    """Read a file of D4RL with h5py, in parts, and write what a dataset needs of it, observations twice."""
    import h5py

    target.mkdir(parents=True)
    with h5py.File(source) as file:
        names: list[str] = []
        file.visit(lambda name: names.append(name) if isinstance(file[name], h5py.Dataset) else None)
        size = (1 << 22) * STEPS // sum(file[name].nbytes for name in names)
        outputs = {name: (target / name.replace("/", "_")).open("wb") for name in [*names, "next"]}
        for start in range(0, STEPS, size):
            for name in names:
                data = file[name][start : start + size].data
                outputs[name].write(data)
                if name == "observations":
                    outputs["next"].write(data)
        for output in outputs.values():
            output.close()


def bare_read(source: Path) -> None:
    """Read all episodes of a file of Minari with h5py."""
    import h5py

    names = ("observations", "actions", "rewards", "terminations", "truncations", "infos/qpos", "infos/qvel")
    with h5py.File(source) as file:
        for group in file.values():
            for name in names:
                group[name][:]


def conversions(folder: Path, rounds: int) -> Iterator[tuple[str, float]]:
    """Convert files that are in place already, so that nothing is downloaded."""
    from rlnb.data.datasets import D4RLExperienceReplay, MinariExperienceReplay

    source = folder / FILE
    write_d4rl(source)
    yield "MB of D4RL", source.stat().st_size / 1e6
    found: dict[str, list[float]] = {"convert D4RL": [], "convert D4RL, elapsed": [], "bare copy": []}
    for _ in range(rounds):
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        (root / f".{NAME}.download").mkdir(parents=True)
        (root / f".{NAME}.download" / FILE).hardlink_to(source)
        clocks = time.process_time(), time.perf_counter()
        D4RLExperienceReplay(NAME, root=root)
        found["convert D4RL"].append(time.process_time() - clocks[0])
        found["convert D4RL, elapsed"].append(time.perf_counter() - clocks[1])
        start = time.process_time()
        bare_copy(source, folder / "bare")
        found["bare copy"].append(time.process_time() - start)
        shutil.rmtree(folder / "bare")
    local = folder / "minari" / "long-v0" / "data"
    write_minari(local)
    yield "MB of Minari", (local / "main_data.hdf5").stat().st_size / 1e6
    found |= {"convert Minari": [], "read Minari": []}
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    for _ in range(rounds):
        shutil.rmtree(folder / "root minari", ignore_errors=True)
        start = time.process_time()
        MinariExperienceReplay("long-v0", root=folder / "root minari", load_from_local_minari=True)
        found["convert Minari"].append(time.process_time() - start)
        start = time.process_time()
        bare_read(local / "main_data.hdf5")
        found["read Minari"].append(time.process_time() - start)
    yield from ((case, min(seconds)) for case, seconds in found.items())


def ours(folder: Path, rounds: int) -> Iterator[tuple[str, float]]:
    """Conversion, opening and sampling."""
    import torch

    from rlnb.data import LazyMemmapStorage, TensorDictReplayBuffer
    from rlnb.data.datasets import D4RLExperienceReplay

    yield from conversions(folder, rounds)
    root = folder / "root"
    yield "open", best(1, rounds * 3, lambda: D4RLExperienceReplay(NAME, root=root))
    dataset = D4RLExperienceReplay(NAME, BATCH, root=root)
    buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(STEPS), batch_size=BATCH)
    buffer.extend(dataset.storage[:])
    index = torch.randint(STEPS, (BATCH,))
    for _ in range(50):
        dataset.sample(), buffer.sample()
    for _ in range(3):  # in turns
        yield "dataset: sample", best(50, rounds, dataset.sample)
        yield "LazyMemmapStorage: sample", best(50, rounds, buffer.sample)
    data = dataset.storage[:]
    yield "torch's index of each entry", best(50, rounds, lambda: data[index])


def theirs(folder: Path, rounds: int) -> Iterator[tuple[str, float]]:
    """Sampling of the same files."""
    from tensordict import TensorDict
    from torchrl.data import TensorDictReplayBuffer, TensorStorage

    place = folder / "root" / NAME
    yield "open", best(1, rounds * 3, lambda: TensorStorage(TensorDict.load_memmap(place)))
    buffer = TensorDictReplayBuffer(storage=TensorStorage(TensorDict.load_memmap(place)), batch_size=BATCH)
    for _ in range(50):
        buffer.sample()
    yield "dataset: sample", best(50, rounds, buffer.sample)


def main() -> None:
    """Print the figures of a library."""
    import torch

    torch.set_num_threads(1)  # the figures are for one core, and waiting threads would count
    library, rounds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    found: dict[str, float] = {}
    for case, value in (ours if library == "rlnb" else theirs)(folder, rounds):
        found[case] = min(found.get(case, value), value)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
