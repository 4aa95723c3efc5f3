"""D4RLExperienceReplay: the datasets of D4RL, HDF5 files of steps in a row."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import ted_steps
from rlnb.data.datasets.download import RemoteFile
from rlnb.data.datasets.hdf5 import Columns, H5Source, cut_rows
from rlnb.data.ted.keys import nested_dict

_SERVER = "http://rail.eecs.berkeley.edu/datasets/offline_rl"
#: Entries of the files that get names of their own; the others keep theirs.
_NAMES = ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts")


def _files() -> dict[str, str]:
    """The path of each dataset's file on the server."""
    maze = ("umaze", "medium", "large", "eval-umaze", "eval-medium", "eval-large")
    hands = {"human": "-v0_demos_clipped", "cloned": "-demos-v0-bc-combined", "expert": "-v0_expert_clipped"}
    gym0 = {"random": "random", "medium": "medium", "expert": "expert", "medium-replay": "mixed"}
    gym0 |= {"medium-expert": "medium_expert"}
    gym1 = ("random", "medium", "expert", "medium-expert", "medium-replay", "full-replay")
    ants = {"umaze": ("u-maze", False, False), "umaze-diverse": ("u-maze", True, True)}
    ants |= {"medium-play": ("big-maze", True, False), "medium-diverse": ("big-maze", True, True)}
    ants |= {"large-play": ("hardest-maze", True, False), "large-diverse": ("hardest-maze", True, True)}
    robots, bullets = ("ant", "halfcheetah", "hopper", "walker2d"), ("random", "medium", "expert")
    found = {
        "maze2d-open-v0": "maze2d/maze2d-open-sparse",
        "maze2d-open-dense-v0": "maze2d/maze2d-open-dense",
        "minigrid-fourrooms-v0": "minigrid/minigrid4rooms",
        "minigrid-fourrooms-random-v0": "minigrid/minigrid4rooms_random",
        "ant-random-expert-v0": "gym_mujoco/ant_random_expert",
        "kitchen-complete-v0": "kitchen/mini_kitchen_microwave_kettle_light_slider-v0",
        "kitchen-partial-v0": "kitchen/kitchen_microwave_kettle_light_slider-v0",
        "kitchen-mixed-v0": "kitchen/kitchen_microwave_kettle_bottomburner_light-v0",
        "carla-lane-v0": "carla/carla_lane_follow_flat-v0",
        "carla-town-v0": "carla/carla_town_subsamp_flat-v0",
        "carla-town-full-v0": "carla/carla_town_flat-v0",
    }
    for size in maze:
        found[f"maze2d-{size}-v1"] = f"maze2d/maze2d-{size}-sparse-v1"
        found[f"maze2d-{size}-dense-v1"] = f"maze2d/maze2d-{size}-dense-v1"
    for task in ("door", "hammer", "pen", "relocate"):
        for kind, end in hands.items():
            found[f"{task}-{kind}-v0"] = f"hand_dapg/{task}{end}"
            found[f"{task}-{kind}-v1"] = f"hand_dapg_v1/{task}-{kind}-v1"
    for robot in robots:
        for kind, end in gym0.items():
            # The replay of the walker has a shorter name.
            name = "walker" if (robot, kind) == ("walker2d", "medium-replay") else robot
            found[f"{robot}-{kind}-v0"] = f"gym_mujoco/{name}_{end}"
        for kind in gym1:
            for version in ("v1", "v2"):
                found[f"{robot}-{kind}-{version}"] = f"gym_mujoco_{version}/{robot}_{kind.replace('-', '_')}-{version}"
        for kind in (*bullets, "medium-expert", "medium-replay"):
            found[f"bullet-{robot}-{kind}-v0"] = f"bullet/bullet-{robot}_{kind.replace('-', '_')}"
    for size in ("open", "umaze", "medium", "large"):
        found[f"bullet-maze2d-{size}-v0"] = f"bullet/bullet-maze2d-{size}-sparse"
    for name, (maze_name, start, goal) in ants.items():
        path = f"Ant_maze_{maze_name}_noisy_multistart_{start}_multigoal_{goal}_sparse"
        found[f"antmaze-{name}-v0"] = f"ant_maze_new/{path}"
        found[f"antmaze-{name}-v2"] = f"ant_maze_v2/{path}_fixed"
    for road in ("ring", "merge"):
        found[f"flow-{road}-random-v0"] = f"flow/flow-{road}-v0-random"
        found[f"flow-{road}-controller-v0"] = f"flow/flow-{road}-v0-idm"
    return {name: f"{path}.hdf5" for name, path in sorted(found.items())}


class D4RLExperienceReplay(BaseDatasetExperienceReplay):
    """The datasets of D4RL: robots, mazes, hands, a kitchen, traffic and driving.

    The files are downloaded from the server of their authors; the package ``d4rl`` is not needed. An entry of theirs
    that has a row for each step keeps its name: "timeouts", "infos". Trajectories are numbered in "traj_ids".

    The files do not have the observation after the last step of a trajectory, unless they have "next_observations".
    It is zero here, as in TorchRL. A learner that bootstraps after a step that is ``truncated`` would read it:
    ``terminate_on_end=False`` leaves such steps out.

    Args:
        dataset_id: such as ``"halfcheetah-medium-v2"``; one of ``available_datasets``.
        batch_size: number of steps in a sample, or of trajectories.
        from_env: only False: reading the data through an env needs ``d4rl``, which does not run beside Gymnasium.
        use_truncated_as_done: whether an episode that was cut off counts as done. With False, "truncated" is left out,
            and "timeouts" says where the episodes were cut off.
        direct_download: only True or None: the files are always downloaded without ``d4rl``.
        terminate_on_end: what the last step of a trajectory that was cut off becomes. None: it stays as it is. True: it
            is terminated. False: it is left out, and the step before it, whose next observation is known, is truncated.
        download: see :class:`BaseDatasetExperienceReplay`, as for the other arguments.
        **kwargs: as for :class:`BaseDatasetExperienceReplay`.

    Raises:
        ImportError: If h5py is not installed, or ``d4rl`` is asked for.
        ValueError: If the file is damaged or of another kind.

    Example:
        >>> data = D4RLExperienceReplay("maze2d-umaze-v1", 128)  # doctest: +SKIP
        >>> data.append_transform(ObservationNorm(loc=-1, scale=1.0, in_keys=["observation"]))  # doctest: +SKIP
        >>> data.sample().batch_size  # doctest: +SKIP
        torch.Size([128])
    """

    library = "d4rl"
    available_datasets = tuple(_files())

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        from_env: bool = False,
        use_truncated_as_done: bool = True,
        direct_download: bool | None = None,
        terminate_on_end: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if from_env or direct_download is False:
            self._refuse_d4rl("from_env=True" if from_env else "direct_download=False")
        self.use_truncated_as_done, self.terminate_on_end = use_truncated_as_done, terminate_on_end
        ends = {None: "", True: ".terminate_on_end", False: ".without_last"}[terminate_on_end]
        self.variant = ends + ("" if use_truncated_as_done else ".terminated_only")
        super().__init__(dataset_id, batch_size, **kwargs)

    @staticmethod
    def _refuse_d4rl(argument: str) -> NoReturn:
        if importlib.util.find_spec("d4rl") is None:
            raise ImportError(
                f"{argument} needs d4rl, which is not installed. Fix: leave it out, since the files are downloaded "
                "without it; or pip install git+https://github.com/Farama-Foundation/d4rl@master#egg=d4rl."
            )
        raise NotImplementedError(
            f"{argument} reads the data through an env of the library gym, which does not run beside Gymnasium. "
            "Fix: leave it out, since the files are downloaded without it."
        )

    def remote_files(self) -> list[RemoteFile]:
        """Return the one file of the dataset; see the base class."""
        path = _files()[str(self.dataset_id)]
        return [RemoteFile(f"{_SERVER}/{path}", path.rpartition("/")[2])]

    def read(self, folder: Path) -> Iterator[TensorDictBase]:
        """Read the file; see the base class."""
        for file in self.remote_files():
            with H5Source(folder / file.path, f"{type(self).__name__} needs") as source:
                yield from self._read(source)

    def _read(self, source: H5Source) -> Iterator[TensorDictBase]:
        needed = ("observations", "actions", "rewards", "terminals")
        columns = source.columns(required=needed, nested=needed[:2])
        steps = len(columns["rewards",])
        self.keep_metadata(source.plain("metadata"))
        # Numbers of another length are not of the steps: those of a policy, or of the env.
        columns = {path: each for path, each in columns.items() if path[0] in _NAMES or len(each) == steps}
        source.same_rows(columns, steps)
        trajectory = 0
        for start, stop in cut_rows(columns, steps):
            terminal, timeout = _ends(source, columns, start, stop + 1, steps)
            chunk, ended = self._chunk(source, columns, (start, stop), terminal, timeout), terminal | timeout
            ended = ended[: stop - start]
            ids = trajectory + ended.cumsum(0) - ended.long()
            trajectory += int(ended.sum())
            chunk["traj_ids"] = ids
            # The step before one that is left out ends its trajectory.
            left_out = timeout & ~terminal & (self.terminate_on_end is False)
            yield chunk[~left_out[: stop - start]] if left_out.any() else chunk

    def _chunk(
        self, source: H5Source, columns: Columns, rows: tuple[int, int], terminal: torch.Tensor, timeout: torch.Tensor
    ) -> TensorDict:
        """Read some rows; ``terminal`` and ``timeout`` have one more, unless there is none."""
        start, stop = rows
        count, length = stop - start, len(terminal)
        ends = (terminal | timeout)[:count]
        known = any(path[0] == "next_observations" for path in columns)
        before: dict[tuple[str, ...], torch.Tensor] = {}
        after: dict[tuple[str, ...], torch.Tensor] = {}
        for path, column in columns.items():
            if path[0] == "observations":
                values = source.read(column, start, stop if known else stop + 1)
                before["observation", *path[1:]] = values[:count]
                if not known:
                    following = torch.zeros_like(values[:count])
                    following[: len(values) - 1] = values[1:]
                    following[ends] = 0
                    after["observation", *path[1:]] = following
            elif path[0] == "next_observations":
                after["observation", *path[1:]] = source.read(column, start, stop)
            elif path[0] == "actions":
                before["action", *path[1:]] = source.read(column, start, stop)
            elif path[0] not in ("rewards", "terminals"):
                before[path] = source.read(column, start, stop)
        terminated, truncated = terminal[:count], timeout[:count]
        if self.terminate_on_end:
            terminated = terminated | truncated
        if self.terminate_on_end is False:
            follows = torch.zeros_like(truncated)
            follows[: length - 1] = (timeout & ~terminal)[1 : count + 1]
            truncated = truncated | (follows & ~ends)
        data = ted_steps(
            nested_dict(before),
            nested_dict(after),
            reward=source.read(columns["rewards",], start, stop),
            terminated=terminated,
            truncated=truncated,
        )
        if not self.use_truncated_as_done:
            data = data.exclude("truncated", ("next", "truncated"))
            data["next", "done"] = data["next", "terminated"].clone()
        return data


def _ends(source: H5Source, columns: Columns, start: int, stop: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Read where the task ends, and where an episode is cut off, which the last step of a file is in any case."""
    terminal = source.read(columns["terminals",], start, stop).bool().flatten()
    cut = columns.get(("timeouts",))
    timeout = torch.zeros_like(terminal) if cut is None else source.read(cut, start, stop).bool().flatten()
    if stop >= steps and len(terminal):
        timeout[-1] |= ~terminal[-1]
    return terminal, timeout
