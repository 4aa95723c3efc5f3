"""Collector: an endless loop over an environment that hands out its steps in batches."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.collectors.arguments import (
    SPLIT_BATCHES_DIFFER,
    check_numbers,
    check_options,
    check_receivers,
    given_ids,
    limited,
    make_env,
)
from rlnb.collectors.trajectories import TrajectoryIds
from rlnb.collectors.utils import split_trajectories
from rlnb.data.ted.keys import COLLECTOR, TRAJ_IDS, TRUNCATED, NestedKey, as_tuple
from rlnb.envs.base import EnvBase
from rlnb.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from rlnb.envs.policies import is_random, make_policy
from rlnb.envs.rollout import collect, truncate_last
from rlnb.envs.stacking import stack_steps


class Collector:
    """Steps an env with a policy, batch after batch; episodes go on from one batch to the next.

    Each batch is in the TED format, of shape ``[*batch_size, time]``, with the entry ("collector", "traj_ids"): an
    integer for each trajectory, another one for each env and each episode.

    Args:
        create_env_fn: an env, or a function that makes one.
        policy: what chooses the action, as for :meth:`~rlnb.envs.EnvBase.rollout`. None: random actions.
        frames_per_batch: how many steps a batch has, those of all envs together. Rounded up to a multiple of the
            number of envs.
        total_frames: how many steps are collected in all; -1: there is no end.
        create_env_kwargs: keyword arguments for ``create_env_fn``.
        device: where env, policy and batches live, unless one of the next three says otherwise.
        storing_device: where batches go.
        env_device: where the env's data lives.
        policy_device: where the policy lives; its input is moved there, and its output back.
        init_random_frames: how many steps are taken with random actions first, at the least. What the policy writes
            beside the action, such as its logits, is zero in them.
        max_frames_per_traj: an episode is truncated after that many steps; -1: no limit.
        reset_at_each_iter: start each batch with a reset.
        postproc: called with each batch; what it returns is handed out.
        split_trajs: hand out a row for each trajectory, padded, with ("collector", "mask") where there is data; see
            :func:`~rlnb.collectors.utils.split_trajectories`.
        exploration_type: of the policy while it collects.
        return_same_td: write each batch over the last one.
        replay_buffer: extended with each batch; the loop then hands out None.
        trust_policy: take a callable as one that reads and writes a TensorDict, whatever it looks like.
        policy_factory: makes the policy, in place of ``policy``.
        set_truncated: mark the last step of each batch as truncated, for learners that treat a batch as whole
            episodes. The episode itself goes on in the next batch.
        track_traj_ids: if False, batches have no ("collector", "traj_ids").
        track_policy_version: write the version of the policy that acted into each batch, as "policy_version" at the
            root and under "next"; see :meth:`increment_version`.
        pre_collect_hook: called before each batch.
        post_collect_hook: called with each batch, before it is handed out or written.
        **options: the other options of TorchRL's collector. ``no_cuda_sync``, ``use_buffers`` and ``worker_idx`` have
            no effect; the rest is refused where its value cannot be kept.

    Attributes:
        env: the env.
        policy: the policy that acts: the one that was given, or a copy of it on ``policy_device``.
        frames: how many steps were handed out, or written into the buffer.

    Raises:
        ValueError: if a number of frames is no integer or too small; if ``max_frames_per_traj`` is given for an env
            that counts its steps already.
        TypeError: if ``create_env_fn`` is no env and makes none, ``postproc`` no function, or ``replay_buffer`` no
            buffer.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> collector = Collector(GymEnv("CartPole-v1"), frames_per_batch=50, total_frames=100)
        >>> [batch.batch_size for batch in collector]
        [torch.Size([50]), torch.Size([50])]
    """

    def __init__(
        self,
        create_env_fn: EnvBase | Callable[..., EnvBase],
        policy: Callable[..., Any] | None = None,
        *,
        frames_per_batch: int,
        total_frames: int = -1,
        create_env_kwargs: dict[str, Any] | None = None,
        device: torch.device | str | int | None = None,
        storing_device: torch.device | str | int | None = None,
        env_device: torch.device | str | int | None = None,
        policy_device: torch.device | str | int | None = None,
        init_random_frames: int | None = 0,
        max_frames_per_traj: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        split_trajs: bool | None = False,
        exploration_type: ExplorationType = ExplorationType.RANDOM,
        return_same_td: bool = False,
        replay_buffer: Any = None,
        trust_policy: bool | None = None,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        set_truncated: bool = False,
        track_traj_ids: bool = True,
        track_policy_version: bool | None = False,
        pre_collect_hook: Callable[[], Any] | None = None,
        post_collect_hook: Callable[[TensorDictBase], Any] | None = None,
        **options: Any,
    ) -> None:
        check_options(options, inspect.signature(Collector).parameters)
        numbers = check_numbers(frames_per_batch, total_frames, init_random_frames, max_frames_per_traj)
        check_receivers(postproc, replay_buffer)
        self.env = make_env(create_env_fn, create_env_kwargs or {})
        if numbers.max_frames_per_traj:
            self.env = limited(self.env, numbers.max_frames_per_traj)
        if (env_device := device if env_device is None else env_device) is not None:
            self.env.to(env_device)
        if policy_factory is not None:
            if policy is not None:
                raise TypeError("Collector takes a policy or a policy_factory, and got both. Fix: leave one out.")
            policy = policy_factory()
        policy_device = device if policy_device is None else policy_device
        self._given_policy = policy
        self.policy = policy = _on_device(policy, policy_device)
        self.storing_device = device if storing_device is None else storing_device
        self._act = make_policy(self.env, policy, bool(trust_policy), auto_cast_to_device=policy_device is not None)
        envs = max(self.env.batch_size.numel(), 1)
        self._steps = -(-numbers.frames_per_batch // envs)
        self.frames_per_batch, self.total_frames = self._steps * envs, numbers.total_frames
        self.init_random_frames, self.reset_at_each_iter = numbers.init_random_frames, reset_at_each_iter
        self.postproc, self.split_trajs, self.exploration_type = postproc, split_trajs, exploration_type
        self.return_same_td, self.replay_buffer = return_same_td, replay_buffer
        self.set_truncated, self.track_traj_ids = set_truncated, track_traj_ids
        self._check_marks()
        self._version = _first_version(track_policy_version)
        self.pre_collect_hook, self.post_collect_hook = pre_collect_hook, post_collect_hook
        self.frames = self.iterations = 0
        self._root: TensorDictBase | None = None
        self._reset_kwargs: dict[str, Any] = {}
        self._under_way = False
        self._asked: tuple[Any, ...] | None = None
        self._rows: dict[NestedKey, torch.Tensor] = {}
        self._same: TensorDictBase | None = None
        self._ids = TrajectoryIds(self.env.batch_size)
        self._contiguous = not any(-1 in spec.shape for spec in self.env.output_spec.values(True, True) if spec)

    def _check_marks(self) -> None:
        """Refuse marks that the batches cannot have."""
        if self.set_truncated and not any(as_tuple(key)[-1] == TRUNCATED for key in self.env.done_keys):
            raise ValueError(
                f"set_truncated=True marks the last step of a batch as truncated, and {type(self.env).__name__} has no "
                "'truncated' signal. Fix: env.add_truncated_keys() before Collector(env, ...)."
            )
        if self.split_trajs and not self.track_traj_ids:
            raise ValueError(
                "split_trajs=True cuts batches by their trajectory ids, and track_traj_ids=False leaves these out. "
                "Fix: leave track_traj_ids out."
            )

    # Collecting ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Collect batches until there are ``total_frames`` steps.

        Yields:
            A batch; None where batches go into a buffer.
        """
        while self.total_frames < 0 or self.frames < self.total_frames:
            yield self.next()

    def iterator(self) -> Iterator[Any]:
        """Return an iterator over batches, as ``iter(collector)`` does."""
        return iter(self)

    def stats(self) -> dict[str, int | bool]:
        """Return how far the collector is.

        Returns:
            "frames", "batches", "total_frames", "requested_frames_per_batch" and whether it is "completed".
        """
        return {
            "frames": self.frames,
            "batches": self.iterations,
            "total_frames": self.total_frames,
            "completed": 0 <= self.total_frames <= self.frames,
            "requested_frames_per_batch": self.frames_per_batch,
        }

    def __len__(self) -> int:
        if self.total_frames < 0:
            raise TypeError("A Collector with total_frames=-1 has no length: it never ends.")
        return -(-self.total_frames // self.frames_per_batch)

    def next(self) -> Any:
        """Collect one batch.

        If that is interrupted, or something fails before the batch is handed out or written, it is lost, and the next
        one starts with a reset.

        Returns:
            The batch; None where batches go into a buffer.
        """
        if self.pre_collect_hook is not None:
            self.pre_collect_hook()
        data: Any = self._processed(self._collect())
        if self.post_collect_hook is not None:
            self.post_collect_hook(data)
        if self.replay_buffer is not None:
            self._write(data)
            data = None
        elif self.return_same_td:
            same, fits = self._same, self._same is not None and self._same.batch_size == data.batch_size
            self._same = data = same.update_(data) if fits and same is not None else data
        self._hand_over()
        return data

    def _processed(self, data: Any) -> Any:
        """Make what is handed out of a batch."""
        if self.postproc is not None:
            data = self.postproc(data)
        if self.split_trajs:
            data = split_trajectories(data, prefix="collector")
        return data if self.storing_device is None else data.to(self.storing_device)

    def rollout(self) -> TensorDictBase:
        """Take the steps of one batch.

        If that is interrupted, or something fails, the steps taken so far are lost, and the next batch starts with a
        reset.

        Returns:
            The batch, before any ``postproc``.
        """
        data = self._collect()
        self._hand_over()
        return data

    def _collect(self) -> TensorDictBase:
        """Take the steps of one batch, which is under way until it is handed over."""
        gradients, exploration = torch.is_grad_enabled(), exploration_type()
        try:
            with torch.no_grad(), set_exploration_type(self.exploration_type):
                return self._take_steps()
        except BaseException:
            # Ctrl+C can end the end of such a block, and what is learned from then on would have no gradients.
            torch.set_grad_enabled(gradients)
            set_exploration_type(exploration).__enter__()
            raise

    def _take_steps(self) -> TensorDictBase:
        env = self.env
        # After a batch that was lost on its way, to go on would leave a hole in a trajectory.
        anew = self._root is None or self._under_way or self.reset_at_each_iter
        self._under_way = True
        root = self._root
        if anew or root is None:
            root = env.reset(**self._reset_kwargs)
            self._reset_kwargs = {}
            self._ids.restart()
        policy_acts = not is_random(env, self.policy)
        random = self.frames < self.init_random_frames and policy_acts
        act = self._act if policy_acts and not random else env.rand_action
        rows = self._rows_beside_actions(root) if random else {}
        data = collect(env, act, root, self._steps, contiguous=self._contiguous)
        _add_zeros(data, rows)
        last = data[..., -1].clone()
        self._root = env.maybe_reset(env._step_mdp(last))
        self._ids.write(data, last)
        if not self.track_traj_ids:
            data.del_(COLLECTOR)
        return self._marked(data)

    def _marked(self, data: TensorDictBase) -> TensorDictBase:
        """Write what a batch has beside the data of the env and the policy."""
        if self._version is not None:
            for key in ("policy_version", ("next", "policy_version")):
                data.set(key, torch.full(data.batch_size, self._version, device=data.device))
        if self.set_truncated:
            truncate_last(self.env, data[..., -1].get("next"))
        return data

    def _write(self, data: TensorDictBase) -> None:
        """Write a batch into the buffer."""
        written = getattr(self.replay_buffer, "write_count", None)
        try:
            self.replay_buffer.extend(data)
        except BaseException as error:
            # A storage that is interrupted copies all rows before it says so. An interrupt between this call and
            # _hand_over leaves them uncounted, and the next batch has new ids all the same.
            if getattr(self.replay_buffer, "write_count", None) != written:
                self.frames, self.iterations = self.frames + self.frames_per_batch, self.iterations + 1
            if self.split_trajs and isinstance(error, ValueError):
                raise ValueError(f"{error}\n{SPLIT_BATCHES_DIFFER}") from error
            raise

    def _hand_over(self) -> None:
        """Let the next batch go on from this one."""
        frames, iterations = self.frames + self.frames_per_batch, self.iterations + 1
        # One statement without a call, in which Python lets no interrupt in.
        self._under_way, self.frames, self.iterations = False, frames, iterations

    def _rows_beside_actions(self, root: TensorDictBase) -> dict[NestedKey, torch.Tensor]:
        """A row of zeros for all that the policy writes beside actions: random batches have the same entries."""
        # A policy may count its calls or keep a state: it is asked once.
        if self._asked != (self.env, self._act):
            self._rows = {
                key: value.new_zeros(value.shape[self.env.batch_dims :])
                for key, value in self._written_by_policy(root).items()
            }
            self._asked = self.env, self._act
        return self._rows

    def _written_by_policy(self, root: TensorDictBase) -> dict[NestedKey, torch.Tensor]:
        """What the policy writes beside actions."""
        given = root.clone()
        before = dict(given.items(True, True))
        with torch.random.fork_rng(devices=()):
            after = self._act(given)
        known = set(self.env.action_keys)
        written = {key: value for key, value in after.items(True, True) if value is not before.get(key)}
        return {key: value for key, value in written.items() if key not in known and isinstance(value, torch.Tensor)}

    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """Start new episodes, and with them new trajectories, in all envs or in some.

        Args:
            index: which envs of a batch of envs: an integer, a slice, a list of integers or a mask. Default: all,
                which are reset when the next batch is collected. A single env is reset with any index.
            **kwargs: passed to the env's reset.

        Raises:
            IndexError: If there are no such envs. Nothing is reset then.

        Example:
            >>> from rlnb.envs import GymEnv, SerialEnv
            >>> collector = Collector(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), frames_per_batch=4)
            >>> collector.next()["collector", "traj_ids"].tolist()
            [[0, 0], [1, 1]]
            >>> collector.reset(1)
            >>> collector.next()["collector", "traj_ids"].tolist()
            [[0, 0], [2, 2]]
        """
        chosen = torch.ones(self.env.batch_size, dtype=torch.bool)
        if index is not None and self.env.batch_size:
            chosen = torch.zeros_like(chosen)
            try:
                chosen[index] = True
            except (IndexError, TypeError, ValueError, RuntimeError) as error:
                raise IndexError(
                    f"Collector.reset got index={index!r}, and its env has batch size {tuple(self.env.batch_size)}. "
                    "Fix: collector.reset(0), or a slice, a list of integers or a mask for several envs."
                ) from error
        if not chosen.any():
            return
        # Before the first batch, and after a reset of all, the next batch resets every env anyway.
        if self._root is None or chosen.all():
            self._root, self._reset_kwargs = None, kwargs
            return
        root, self._root = self._root.copy(), None  # if the reset fails, the next batch resets every env
        for key, (done, *_) in zip(self.env.reset_keys, self.env.done_keys_groups, strict=True):
            shape = self.env.full_done_spec[done].shape
            mask = chosen.reshape(*chosen.shape, *[1] * (len(shape) - chosen.ndim)).expand(shape)
            root.set(key, mask.to(root.device, copy=True))
        with torch.no_grad():
            root = self.env.reset(root, **kwargs)
        self._ids.renew(chosen)
        self._root = root

    def fake_tensordict(self) -> TensorDictBase:
        """Return a batch of zeros with the keys, shapes and dtypes of a real one, without a step of the env.

        The policy is called once with zeros, and a ``postproc`` once with the batch; hooks are not called. No
        episode ends in it, so that ``split_trajs=True`` gives one trajectory for each env.

        Returns:
            The batch, also where real ones go into a buffer. With ``set_truncated`` its last step is truncated.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> Collector(GymEnv("CartPole-v1"), frames_per_batch=50).fake_tensordict()["observation"].shape
            torch.Size([50, 4])
        """
        env = self.env
        step = env.fake_tensordict()
        rows: dict[NestedKey, torch.Tensor] = {}
        if not is_random(env, self.policy):
            with torch.no_grad(), set_exploration_type(self.exploration_type):
                rows = self._rows_beside_actions(step.exclude("next", *env.action_keys))
        data = stack_steps([step] * self._steps, step.batch_dims, [*[None] * step.batch_dims, "time"])
        _add_zeros(data, rows)
        if self.track_traj_ids:
            data.set((COLLECTOR, TRAJ_IDS), torch.zeros(data.batch_size, dtype=torch.int64, device=data.device))
        fake: TensorDictBase = self._processed(self._marked(data))
        return fake

    # What only collectors in other threads or processes can do -----------------------------------------------------

    def start(self) -> None:
        """Not supported: a collector collects when it is asked for a batch.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "Collector.start() is not supported: it would collect in a thread beside the learner, whose optimizer "
            "changes the policy in the middle of a step. "
            "Fix: for _ in collector: ..., with replay_buffer=..., and a ParallelEnv for several processes."
        )

    def pause(self) -> Any:
        """Not supported: nothing is collected between two batches.

        Raises:
            NotImplementedError: Always, as in TorchRL.
        """
        raise NotImplementedError(
            "Collector.pause() is not supported: this collector does not run on its own, and between two calls of "
            "next() nothing is collected. Fix: leave pause() out."
        )

    def is_running(self) -> bool:
        """Return whether data is collected in the background: False, since nothing is (see :meth:`start`)."""
        return False

    def enable_profile(self, **options: Any) -> None:
        """Not supported: the collector runs in this process, where torch's own profiler sees all of it.

        Args:
            **options: those of TorchRL's method.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "Collector.enable_profile() is not supported: it collects in this process, where torch's own profiler "
            "sees every step. Fix: with torch.profiler.profile() as profile: collector.next()."
        )

    # The policy ---------------------------------------------------------------------------------------------------

    def update_policy_weights_(self, policy_or_weights: Any = None, *, worker_ids: Any = None) -> None:
        """Let the collector act with the newest weights of the policy.

        The collector acts with the policy itself, so that what an optimizer changes is used from the next step on, and
        nothing has to be copied. Only where it acts with a copy on another device are the weights copied.

        Args:
            policy_or_weights: a module, its parameters as a TensorDict, or a state dict, whose values are written into
                the policy. None: those of the policy that the collector was made with.
            worker_ids: accepted and not read: there are no workers.

        Raises:
            TypeError: if weights are given and the policy is not a module, or they are something else.
            RuntimeError: if they do not fit the policy. Nothing is written then.

        Example:
            >>> from tensordict.nn import TensorDictModule
            >>> from rlnb.envs import GymEnv
            >>> policy = TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"])
            >>> collector = Collector(GymEnv("Pendulum-v1"), policy, frames_per_batch=10)
            >>> collector.update_policy_weights_()
        """
        self._write_weights(self._given_policy if policy_or_weights is None else policy_or_weights)
        self.increment_version()

    def _write_weights(self, source: Any) -> None:
        """Write weights into the policy that acts."""
        if source is self.policy:
            return
        if not isinstance(self.policy, torch.nn.Module):
            raise TypeError(
                f"update_policy_weights_ writes weights into a torch module, and the policy is a "
                f"{type(self.policy).__name__}. Fix: leave the weights out, or Collector(env, TensorDictModule(...))."
            )
        if isinstance(source, torch.nn.Module):
            source = source.state_dict()
        elif isinstance(source, TensorDictBase):
            flat = source.detach().flatten_keys(".")
            source = {**self.policy.state_dict(), **dict(flat.items())}
        elif not isinstance(source, Mapping):
            raise TypeError(
                f"update_policy_weights_ takes a module, a TensorDict of parameters or a state dict, and got a "
                f"{type(source).__name__}. Fix: collector.update_policy_weights_(policy)."
            )
        own = self.policy.state_dict()
        wrong = [key for key in {*own, *source} if key not in own or key not in source or _shapes(own, source, key)]
        if wrong:
            raise RuntimeError(
                f"The weights do not fit the policy: these differ in name or shape: {sorted(wrong)}. "
                "Fix: collector.update_policy_weights_(policy), with a policy of the same architecture."
            )
        self.policy.load_state_dict(source)

    @property
    def policy_version(self) -> int | None:
        """How often the policy was updated; None without ``track_policy_version=True``."""
        return self._version

    def get_policy_version(self) -> int | None:
        """Return :attr:`policy_version`.

        Returns:
            The version; None if versions are not tracked.
        """
        return self._version

    def increment_version(self) -> None:
        """Count an update of the policy; :meth:`update_policy_weights_` does it, too.

        Nothing is counted without ``track_policy_version=True``.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> collector = Collector(GymEnv("Pendulum-v1"), frames_per_batch=2, track_policy_version=True)
            >>> collector.increment_version()
            >>> collector.next()["policy_version"]
            tensor([1, 1])
        """
        if self._version is not None:
            self._version += 1

    def get_model(self, model_id: str) -> Any:
        """Return a model by its name.

        Args:
            model_id: "policy", or an attribute of the collector that is a module, such as "env.transform".

        Returns:
            The model.

        Raises:
            ValueError: If there is no such model.
        """
        found: Any = self
        for name in str(model_id).split("."):
            found = getattr(found, name, None)
        if found is None or (not isinstance(found, torch.nn.Module) and found is not self.policy):
            raise ValueError(
                f"The collector has no model {model_id!r}. Its policy is a {type(self.policy).__name__}. "
                "Fix: collector.get_model('policy'), of a collector that was made with a policy."
            )
        return found

    def init_updater(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing, as in TorchRL for a collector without a weight updater: the learner's policy itself acts.

        Args:
            *args: accepted and not read.
            **kwargs: accepted and not read.
        """

    def getattr_env(self, attr: str) -> Any:
        """Read an attribute of the env.

        Args:
            attr: its name.

        Returns:
            Its value.
        """
        return getattr(self.env, attr)

    def getattr_policy(self, attr: str) -> Any:
        """Read an attribute of the policy.

        Args:
            attr: its name.

        Returns:
            Its value.
        """
        return getattr(self.policy, attr)

    def getattr_rb(self, attr: str) -> Any:
        """Read an attribute of the replay buffer.

        Args:
            attr: its name.

        Returns:
            Its value.
        """
        return getattr(self.replay_buffer, attr)

    def set_post_collect_hook(self, hook: Callable[[TensorDictBase], Any] | None) -> None:
        """Set what is called with each batch.

        Args:
            hook: the function; None for nothing.
        """
        self.post_collect_hook = hook

    # Seeds, states, the end ---------------------------------------------------------------------------------------

    def set_seed(self, seed: int, static_seed: bool = False) -> int | None:
        """Seed the env. The next batch starts with a reset.

        Args:
            seed: the seed.
            static_seed: give all envs of a batch the same.

        Returns:
            The seed for the next env of a chain.
        """
        self._root = None
        return self.env.set_seed(seed, static_seed=static_seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of env and policy, and how far the collector is.

        Returns:
            "env_state_dict", "policy_state_dict" (where the policy is a module), "frames", "iter" and "traj_ids": how
            many trajectories got an id; "policy_version" where versions are tracked.
        """
        state = {"env_state_dict": self.env.state_dict(), "frames": self.frames, "iter": self.iterations}
        state["traj_ids"] = self._ids.free
        if self._version is not None:
            state["policy_version"] = self._version
        if isinstance(self.policy, torch.nn.Module):
            state["policy_state_dict"] = self.policy.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned. The next batch starts with a reset.

        Its trajectories get ids that neither this collector nor the saved one gave before.

        Args:
            state_dict: the state. One without "traj_ids", of an older version, is loaded as well.

        Raises:
            KeyError: if a part of it is missing.
            ValueError: if "traj_ids" is no non-negative integer.
            RuntimeError: if it does not fit the policy.

        Whatever is raised, env and policy are as they were.
        """
        wanted = ["env_state_dict", "frames", "iter"]
        wanted += ["policy_state_dict"] if isinstance(self.policy, torch.nn.Module) else []
        missing = [name for name in wanted if name not in state_dict]
        if missing:
            raise KeyError(f"The state dict of a collector has {wanted}, and this one lacks {missing}.")
        ids = max(given_ids(state_dict), self._ids.free)
        before = copy.deepcopy(self.state_dict())
        try:
            self._load(state_dict)
        except BaseException:
            self._load(before)
            raise
        frames, iterations = state_dict["frames"], state_dict["iter"]
        self.frames, self.iterations, self._ids.free, self._root = frames, iterations, ids, None
        if self._version is not None:
            self._version = state_dict.get("policy_version", self._version)

    def _load(self, state_dict: dict[str, Any]) -> None:
        self.env.load_state_dict(state_dict["env_state_dict"])
        if isinstance(self.policy, torch.nn.Module):
            self.policy.load_state_dict(state_dict["policy_state_dict"])

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Close the env.

        Args:
            timeout: accepted and not read; ``ParallelEnv(shutdown_timeout=...)`` limits the time.
            close_env: if False, leave the env open.
            raise_on_error: if False, suppress what closing the env raises.
        """
        self._root = None
        with contextlib.nullcontext() if raise_on_error else contextlib.suppress(Exception):
            if close_env and not self.env.is_closed:
                self.env.close()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Close the env; see :meth:`shutdown`.

        Args:
            timeout: as for :meth:`shutdown`.
            close_env: as for :meth:`shutdown`.
        """
        self.shutdown(timeout, close_env)

    def __repr__(self) -> str:
        env = repr(self.env).replace("\n", "\n    ")
        return (
            f"{type(self).__name__}(\n    env={env},\n    frames_per_batch={self.frames_per_batch}, "
            f"total_frames={self.total_frames})"
        )


def _first_version(track: Any) -> int | None:
    """Return the version to count from; None if versions are not tracked."""
    if not isinstance(track, bool | None):
        raise TypeError(
            f"track_policy_version must be True or False and is a {type(track).__name__}. The Collector counts "
            "versions with integers. Fix: Collector(..., track_policy_version=True)."
        )
    return 0 if track else None


def _add_zeros(data: TensorDictBase, rows: Mapping[NestedKey, torch.Tensor]) -> None:
    """Add entries of zeros, each shaped like its row at every step."""
    for key, row in rows.items():
        data.set(key, row.new_zeros((*data.batch_size, *row.shape)))


def _on_device(policy: Any, device: Any) -> Any:
    """Return the policy, or a copy of it if its parameters are on another device."""
    if device is None or not isinstance(policy, torch.nn.Module):
        return policy
    device = torch.empty(0, device=device).device  # with its index
    tensors = [*policy.parameters(), *policy.buffers()]
    return policy if all(tensor.device == device for tensor in tensors) else copy.deepcopy(policy).to(device)


def _shapes(own: Mapping[str, Any], given: Mapping[str, Any], key: str) -> bool:
    """Whether two states differ in the shape of an entry."""
    return getattr(own[key], "shape", None) != getattr(given[key], "shape", None)


#: The name of this class in older versions of TorchRL.
SyncDataCollector = Collector

__all__ = ["Collector", "SyncDataCollector"]
