"""Collector, which steps an environment with a policy and yields the data in batches."""

from __future__ import annotations

import contextlib
import copy
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.collectors.arguments import (
    check_collector_options,
    check_numbers,
    check_receivers,
    check_writing,
    find_model,
    given_ids,
    make_env,
)
from rlnb.collectors.background import Background
from rlnb.collectors.trace import CollectorTrace, calling
from rlnb.collectors.trajectories import TrajectoryIds
from rlnb.collectors.weights import as_state_dict
from rlnb.data.ted.keys import COLLECTOR, TRAJ_IDS, TRUNCATED, NestedKey, as_tuple
from rlnb.data.ted.trajectories import split_trajectories
from rlnb.envs.base import EnvBase
from rlnb.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from rlnb.envs.policies import is_random, make_policy
from rlnb.envs.rollout import collect, truncate_last
from rlnb.envs.stacking import stack_steps

_PIECES = 20  # of a batch, between which an interruptor is asked


class Collector:
    """Steps an env with a policy and yields batches of data. Episodes continue from one batch to the next.

    Each batch is in the TED format, of shape ``[*batch_size, time]``. Its entry ("collector", "traj_ids") numbers the
    trajectories: each episode of each env has its own integer. Entries whose name begins with an underscore, such as
    the state of exploration noise, are left out.

    Args:
        create_env_fn: an env, or a function that makes one.
        policy: chooses the actions, as in :meth:`~rlnb.envs.EnvBase.rollout`. ``None``: random actions.
        frames_per_batch: number of steps of a batch, over all envs together. It is rounded up to a multiple of the
            number of envs.
        total_frames: number of steps after which iteration ends. -1: it does not end.
        create_env_kwargs: keyword arguments for ``create_env_fn``.
        device: device of env, policy and batches, unless one of the next three arguments is given.
        storing_device: device that batches are moved to.
        env_device: device of the env's data.
        policy_device: device of the policy. Its input is moved there, and its output back.
        init_random_frames: least number of steps that are taken with random actions first. Other entries of the
            policy, such as logits, are zero in them.
        max_frames_per_traj: number of steps after which an episode is truncated. -1: no limit.
        reset_at_each_iter: whether each batch starts with a reset.
        postproc: function of a batch, split if ``split_trajs``, that returns the data to yield.
        split_trajs: whether to make one row of each trajectory, padded, with ("collector", "mask") where there is
            data; see :func:`~rlnb.collectors.utils.split_trajectories`.
        exploration_type: exploration type of the policy while data is collected.
        return_same_td: whether each batch overwrites the one before it.
        replay_buffer: extended with each batch. The iterator then yields None.
        extend_buffer: whether the buffer is extended with the batch. False: with its single steps, in order of time, as
            for a buffer without dimensions for the envs of a batch.
        trust_policy: whether to take a callable as a policy that reads and writes a TensorDict, whatever its signature.
        policy_factory: function that makes the policy, instead of ``policy``.
        set_truncated: whether to mark the last step of each batch as truncated, for learners that take a batch as whole
            episodes. The episode itself continues in the next batch.
        track_traj_ids: whether batches have the entry ("collector", "traj_ids").
        track_policy_version: whether batches have the version of the policy, as "policy_version" at the root and
            under "next"; see :meth:`increment_version`.
        interruptor: object with a method ``collection_stopped``, which is called about twenty times a batch. If it
            returns True, the batch ends early, with fewer steps.
        pre_collect_hook: called before each batch.
        post_collect_hook: called with each batch, before it is yielded or written.
        **options: other options of TorchRL's collector. ``no_cuda_sync``, ``use_buffers`` and ``worker_idx`` have no
            effect; a value of another option that is not supported raises an error.

    Attributes:
        env: the env.
        policy: the policy, or a copy of it on ``policy_device``.
        frames: number of steps that were yielded or written to the buffer.

    Raises:
        ValueError: If a number of frames is not an integer or too small, or ``max_frames_per_traj`` is given for an env
            that counts its steps already.
        TypeError: If ``create_env_fn`` is neither an env nor a function that returns one, ``postproc`` cannot be
            called, or ``replay_buffer`` is not a replay buffer.

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
        extend_buffer: bool = True,
        trust_policy: bool | None = None,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        set_truncated: bool = False,
        track_traj_ids: bool = True,
        track_policy_version: bool | None = False,
        interruptor: Any = None,
        pre_collect_hook: Callable[[], Any] | None = None,
        post_collect_hook: Callable[[TensorDictBase], Any] | None = None,
        **options: Any,
    ) -> None:
        check_collector_options(options, inspect.signature(Collector).parameters)
        numbers = check_numbers(frames_per_batch, total_frames, init_random_frames, max_frames_per_traj)
        check_receivers(postproc, replay_buffer)
        check_writing(replay_buffer, extend_buffer, split_trajs)
        env_device = device if env_device is None else env_device
        self.env = make_env(create_env_fn, create_env_kwargs, env_device, numbers.max_frames_per_traj)
        if policy_factory is not None:
            if policy is not None:
                raise TypeError("Collector takes a policy or a policy_factory, got both. Fix: leave one out.")
            policy = policy_factory()
        self._given_policy = policy
        policy_device = device if policy_device is None else policy_device
        self.policy = _on_device(policy, policy_device)
        self._policy_options = bool(trust_policy), policy_device is not None
        self._act = make_policy(self.env, self.policy, *self._policy_options)
        _materialize(self.env, self.policy, self._act)
        self.storing_device = device if storing_device is None else storing_device
        envs = max(self.env.batch_size.numel(), 1)
        self._steps = -(-numbers.frames_per_batch // envs)
        self.frames_per_batch, self.total_frames = self._steps * envs, numbers.total_frames
        self.init_random_frames, self.reset_at_each_iter = numbers.init_random_frames, reset_at_each_iter
        self.postproc, self.split_trajs, self.exploration_type = postproc, split_trajs, exploration_type
        self.return_same_td, self.replay_buffer = return_same_td, replay_buffer
        self.extend_buffer = extend_buffer
        self.set_truncated, self.track_traj_ids, self._interruptor = set_truncated, track_traj_ids, interruptor
        self.pre_collect_hook, self.post_collect_hook = pre_collect_hook, post_collect_hook
        self._check_entries()
        self._version = _first_version(track_policy_version)
        self._contiguous = not any(-1 in spec.shape for spec in self.env.output_spec.values(True, True) if spec)
        self._set_up_state()

    def _set_up_state(self) -> None:
        """Set the state of a collector that has collected nothing."""
        self.frames = self.iterations = 0
        self._background = Background(type(self).__name__)
        self._taken = 0  # steps of the last batch, over all envs
        self._trace: CollectorTrace | None = None
        self._ids = TrajectoryIds(self.env.batch_size)
        # The input of the next step, None if the next batch starts with a reset.
        self._root: TensorDictBase | None = None
        self._reset_kwargs: dict[str, Any] = {}
        # Whether a batch was begun and neither yielded nor written.
        self._unfinished = False
        self._zeros_for: tuple[Any, ...] | None = None
        self._zeros: dict[NestedKey, torch.Tensor] = {}
        self._same: TensorDictBase | None = None

    def _check_entries(self) -> None:
        """Check options that need entries which batches may not have."""
        if self.set_truncated and not any(as_tuple(key)[-1] == TRUNCATED for key in self.env.done_keys):
            raise ValueError(
                f"set_truncated=True marks the last step of a batch as truncated, and {type(self.env).__name__} has no "
                "'truncated' signal. Fix: env.add_truncated_keys() before Collector(env, ...)."
            )
        if self.split_trajs and not self.track_traj_ids:
            raise ValueError(
                "split_trajs=True splits batches by their trajectory ids, which track_traj_ids=False leaves out. "
                "Fix: leave track_traj_ids out."
            )

    # Collecting ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Collect batches until there are ``total_frames`` steps.

        Yields:
            A batch, or None if batches are written to a buffer.
        """
        while self.total_frames < 0 or self.frames < self.total_frames:
            yield self.next()

    def iterator(self) -> Iterator[Any]:
        """Return an iterator over batches, the same as ``iter(collector)``."""
        return iter(self)

    def stats(self) -> dict[str, int | bool]:
        """Return the progress: "frames", "batches", "total_frames", "requested_frames_per_batch", and "completed"."""
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

        If an interrupt or an error prevents the batch from being returned or written, its steps are lost, and the
        next batch starts with a reset.

        Returns:
            The batch, or None if batches are written to a buffer.

        Raises:
            RuntimeError: If the collector runs in the background; see :meth:`start`.
        """
        self._background.refuse("next()")
        with calling(self._trace, by_learner=not self._background.is_running()):
            return self._next()

    def _next(self) -> Any:
        if self.pre_collect_hook is not None:
            self.pre_collect_hook()
        began, trace = time.perf_counter_ns(), self._trace
        collected = self._collect()
        if trace is not None:
            trace.note_own_batch(began, self._taken)
        data: Any = self._processed(collected)
        if self.post_collect_hook is not None:
            self.post_collect_hook(data)
        if self.replay_buffer is not None:
            self._write(data)
            data = None
        elif self.return_same_td:
            same, fits = self._same, self._same is not None and self._same.batch_size == data.batch_size
            self._same = data = same.update_(data) if fits and same is not None else data
        self._finish()
        return data

    def _processed(self, data: Any) -> Any:
        """Convert a batch to the data that is yielded or written."""
        if self.split_trajs:
            data = split_trajectories(data, prefix="collector")
        if self.postproc is not None:
            data = self.postproc(data)
        return data if self.storing_device is None else data.to(self.storing_device)

    def rollout(self) -> TensorDictBase:
        """Collect one batch without ``postproc``, hooks and buffer.

        After an interrupt or an error, the steps so far are lost, and the next batch starts with a reset.
        """
        self._background.refuse("rollout()")
        data = self._collect()
        self._finish()
        return data

    def _collect(self) -> TensorDictBase:
        """Take the steps of one batch, which :meth:`_finish` counts once it is yielded or written."""
        gradients, exploration = torch.is_grad_enabled(), exploration_type()
        try:
            with torch.no_grad(), set_exploration_type(self.exploration_type):
                return self._take_steps()
        except BaseException:
            # Ctrl+C may interrupt the end of the with block itself. Without these two lines, code that learns after
            # it would have no gradients.
            torch.set_grad_enabled(gradients)
            set_exploration_type(exploration).__enter__()
            raise

    def _take_steps(self) -> TensorDictBase:
        env = self.env
        root = self._root
        # To continue after a batch that was lost would leave a gap in a trajectory.
        start_anew = self._unfinished or self.reset_at_each_iter
        self._unfinished = True
        if root is None or start_anew:
            root = env.reset(**self._reset_kwargs)
            self._reset_kwargs = {}
            self._ids.restart()
        policy_acts = not is_random(env, self.policy)
        random = self.frames < self.init_random_frames and policy_acts
        act = self._act if policy_acts and not random else env.rand_action
        zeros = self._zeros_of_policy(root) if random else {}
        data, last = self._steps_until_stopped(act, root)
        _add_zeros(data, zeros)
        data.exclude(*_private_keys(data), inplace=True)  # after `last`, which the next step needs
        self._ids.write(data, last)
        if not self.track_traj_ids:
            data.del_(COLLECTOR)
        return self._marked(data)

    def _steps_until_stopped(self, act: Any, root: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take the steps of a batch, or fewer if the interruptor says so. Returns them and a copy of the last one."""
        env, left = self.env, self._steps
        parts: list[Any] = []
        size = left if self._interruptor is None else -(-left // _PIECES)
        while left and not (parts and self._interruptor.collection_stopped()):
            data = collect(env, act, root, min(size, left), contiguous=self._contiguous)
            last = data[..., -1].clone()
            root = env.maybe_reset(env._step_mdp(last))
            parts.append(data)
            left -= min(size, left)
        self._root = root
        self._taken = self.frames_per_batch - left * (self.frames_per_batch // self._steps)
        whole: Any = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return whole, last

    def _marked(self, data: TensorDictBase) -> TensorDictBase:
        """Write the version of the policy, and mark the last step as truncated, each if requested."""
        if self._version is not None:
            for key in ("policy_version", ("next", "policy_version")):
                data.set(key, torch.full(data.batch_size, self._version, device=data.device))
        if self.set_truncated:
            truncate_last(self.env, data[..., -1].get("next"))
        return data

    def _write(self, data: TensorDictBase) -> None:
        """Write a batch to the buffer."""
        written = getattr(self.replay_buffer, "write_count", None)
        try:
            self.replay_buffer.extend(data if self.extend_buffer else as_single_steps(data))
        except BaseException as error:
            # A storage finishes its write before it raises an interrupt. After an interrupt between this call and
            # _finish the steps are not counted, but the next batch still has new ids.
            if getattr(self.replay_buffer, "write_count", None) != written:
                self.frames, self.iterations = self.frames + self._taken, self.iterations + 1
            if self.split_trajs and isinstance(error, ValueError):
                raise ValueError(
                    f"{error}\nsplit_trajs=True pads each batch to the longest of its trajectories, so that no two "
                    "batches have the same shape. "
                    "Fix: split_trajs=False, and a sampler that finds the trajectories in the buffer: "
                    'SliceSampler(slice_len=8, traj_key=("collector", "traj_ids")).'
                ) from error
            raise

    def _finish(self) -> None:
        """Count a batch that was yielded or written, and let the next one continue from it."""
        frames, iterations = self.frames + self._taken, self.iterations + 1
        # One statement without a call: CPython delivers signals after calls and at loop back-edges, so that Ctrl+C
        # cannot separate the three.
        self._unfinished, self.frames, self.iterations = False, frames, iterations

    def _zeros_of_policy(self, root: TensorDictBase) -> dict[NestedKey, torch.Tensor]:
        """A row of zeros for each entry that the policy writes beside actions, so that random batches have them too."""
        # Once for an env and a policy: a policy may count its calls or have a state.
        if self._zeros_for != (self.env, self._act):
            given = root.clone()
            before, known = dict(given.items(True, True)), set(self.env.action_keys)
            with torch.random.fork_rng(devices=()):
                after = self._act(given)
            self._zeros = {
                key: value.new_zeros(value.shape[self.env.batch_dims :])
                for key, value in after.items(True, True)
                if value is not before.get(key) and key not in known and isinstance(value, torch.Tensor)
            }
            self._zeros_for = self.env, self._act
        return self._zeros

    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """Start new episodes, and new trajectories, in all envs or in some.

        Args:
            index: envs of a batch of envs: an integer, a slice, a list of integers or a mask. Default: all envs, which
                are reset when the next batch is collected. A single env is reset with any index.
            **kwargs: keyword arguments for the env's reset.

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
                    f"index must select envs of a batch of size {tuple(self.env.batch_size)}, got {index!r}. "
                    "Fix: collector.reset(0), or a slice, a list of integers or a mask for several envs."
                ) from error
        if not chosen.any():
            return
        with self._quiet():
            self._reset_chosen(chosen, kwargs)

    def _reset_chosen(self, chosen: torch.Tensor, kwargs: dict[str, Any]) -> None:
        # The next batch resets all envs.
        if self._root is None or chosen.all():
            self._root, self._reset_kwargs = None, kwargs
            return
        root, self._root = self._root.copy(), None  # if the reset fails, the next batch resets all envs
        for key, (done, *_) in zip(self.env.reset_keys, self.env.done_keys_groups, strict=True):
            shape = self.env.full_done_spec[done].shape
            mask = chosen.reshape(*chosen.shape, *[1] * (len(shape) - chosen.ndim)).expand(shape)
            root.set(key, mask.to(root.device, copy=True))
        with torch.no_grad():
            root = self.env.reset(root, **kwargs)
        self._ids.renew(chosen)
        self._root = root

    def fake_tensordict(self) -> TensorDictBase:
        """Return a batch of zeros with the keys, shapes and dtypes of a real one, without stepping the env.

        The policy is called once with zeros, and ``postproc`` once with the batch; hooks are not called. No episode
        ends in the batch, so that ``split_trajs=True`` gives one trajectory for each env.

        Returns:
            The batch, even if real ones are written to a buffer. With ``set_truncated`` its last step is truncated.

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
                rows = self._zeros_of_policy(step.exclude("next", *env.action_keys))
        data = stack_steps([step] * self._steps, step.batch_dims, [*[None] * step.batch_dims, "time"])
        _add_zeros(data, rows)
        if self.track_traj_ids:
            data.set((COLLECTOR, TRAJ_IDS), torch.zeros(data.batch_size, dtype=torch.int64, device=data.device))
        fake: TensorDictBase = self._processed(self._marked(data))
        return fake

    @contextlib.contextmanager
    def tracing(self) -> Iterator[CollectorTrace]:
        """Record, in the trace that the ``with`` block gets, when the collector works and when the learner.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> collector = Collector(GymEnv("CartPole-v1"), frames_per_batch=40)
            >>> with collector.tracing() as trace:
            ...     batches = [collector.next() for _ in range(3)]
            >>> trace
            CollectorTrace(Collector, num_workers=1, batches=3, updates=0)
        """
        before, self._trace = self._trace, CollectorTrace(type(self).__name__, 1, self._version or 0)
        try:
            with self._trace.running() as trace:
                yield trace
        finally:
            self._trace = before

    # In the background --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Collect in a thread, into the replay buffer, until ``total_frames`` or :meth:`async_shutdown`.

        A policy that is a module is copied first, so that an optimizer does not change it in the middle of a batch:
        from now on, :meth:`update_policy_weights_` passes new weights on. Other methods wait for the end of the batch
        that is being collected. The thread and the learner take turns in one Python process; an
        :class:`~rlnb.collectors.AsyncCollector` collects in another one.

        Raises:
            RuntimeError: If there is no replay buffer, or the collector runs already.
        """
        policy = self.policy
        if self.replay_buffer is not None and policy is self._given_policy and isinstance(policy, torch.nn.Module):
            self.policy = copy.deepcopy(policy)
            self._act = make_policy(self.env, self.policy, *self._policy_options)
        self._background.start(self._collect_in_background, self.replay_buffer)

    def _collect_in_background(self) -> bool:
        """Collect a batch; return whether there are more to collect."""
        if 0 <= self.total_frames <= self.frames:
            return False
        self.next()
        return self.total_frames < 0 or self.frames < self.total_frames

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a collector that was started writes nothing to the buffer.

        Raises:
            RuntimeError: If the collector does not run.
        """
        return self._background.pause()

    def is_running(self) -> bool:
        """Return whether the collector collects in the background; see :meth:`start`."""
        return self._background.is_running()

    def _quiet(self) -> contextlib.AbstractContextManager[None]:
        """Keep the background thread from collecting."""
        return self._background.pause() if self._background.is_running() else contextlib.nullcontext()

    def enable_profile(self, **options: Any) -> None:
        """Raise ``NotImplementedError``: the collector runs in this process, where torch's profiler can measure it."""
        raise NotImplementedError(
            "Collector.enable_profile() is not supported: this collector runs in this process, where torch's profiler "
            "can measure it. Fix: with torch.profiler.profile() as profile: collector.next()."
        )

    # The policy ---------------------------------------------------------------------------------------------------

    def update_policy_weights_(self, policy_or_weights: Any = None, *, worker_ids: Any = None) -> None:
        """Update the weights of the policy that the collector uses.

        The collector uses the policy itself, so that changes of an optimizer take effect with the next step without a
        copy. Weights are copied only if the collector uses a copy of the policy, on another device or in a thread.

        Args:
            policy_or_weights: a module, its parameters as a TensorDict, or a state dict, whose values are written to
                the policy. Default: the weights of the policy that the collector was made with.
            worker_ids: has no effect: there are no workers.

        Raises:
            TypeError: If the policy is not a module, or the weights are of another type.
            RuntimeError: If the weights do not fit the policy. Nothing is written then.

        Example:
            >>> from tensordict.nn import TensorDictModule
            >>> from rlnb.envs import GymEnv
            >>> policy = TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"])
            >>> collector = Collector(GymEnv("Pendulum-v1"), policy, frames_per_batch=10)
            >>> collector.update_policy_weights_()
        """
        with self._quiet():
            self._write_weights(self._given_policy if policy_or_weights is None else policy_or_weights)
            self.increment_version()

    def _write_weights(self, source: Any) -> None:
        """Write weights to the policy that the collector uses."""
        if source is self.policy:
            return
        if not isinstance(self.policy, torch.nn.Module):
            raise TypeError(
                f"update_policy_weights_ needs a policy that is a torch module, got a {type(self.policy).__name__}. "
                "Fix: leave the weights out, or Collector(env, TensorDictModule(...))."
            )
        self.policy.load_state_dict(as_state_dict(source, self.policy.state_dict()))

    @property
    def policy_version(self) -> int | None:
        """Number of updates of the policy. None without ``track_policy_version=True``."""
        return self._version

    def get_policy_version(self) -> int | None:
        """Return :attr:`policy_version`."""
        return self._version

    def increment_version(self) -> None:
        """Count an update of the policy, as :meth:`update_policy_weights_` does.

        It has no effect without ``track_policy_version=True``.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> collector = Collector(GymEnv("Pendulum-v1"), frames_per_batch=2, track_policy_version=True)
            >>> collector.increment_version()
            >>> collector.next()["policy_version"]
            tensor([1, 1])
        """
        if self._version is not None:
            self._version += 1
        if self._trace is not None:
            self._trace.note_update(self._version)

    def get_model(self, model_id: str) -> Any:
        """Return a model by its name: "policy", or the name of an attribute that is a module, such as "env.transform".

        Raises:
            ValueError: If there is no such model.
        """
        return find_model(self, model_id)

    def init_updater(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing, as in TorchRL for a collector without a weight updater."""

    def getattr_env(self, attr: str) -> Any:
        """Return an attribute of the env."""
        return getattr(self.env, attr)

    def getattr_policy(self, attr: str) -> Any:
        """Return an attribute of the policy."""
        return getattr(self.policy, attr)

    def getattr_rb(self, attr: str) -> Any:
        """Return an attribute of the replay buffer."""
        return getattr(self.replay_buffer, attr)

    def set_post_collect_hook(self, hook: Callable[[TensorDictBase], Any] | None) -> None:
        """Set the function that is called with each batch; ``None`` for no function."""
        self.post_collect_hook = hook

    # Seed, state dict and shutdown --------------------------------------------------------------------------------

    def set_seed(self, seed: int, static_seed: bool = False) -> int | None:
        """Seed the env. The next batch starts with a reset.

        Args:
            seed: an integer from 0 to 2**64 - 1.
            static_seed: whether all envs of a batch get the same seed. Default: each gets its own.

        Returns:
            The seed for the next env of a chain of envs; see :meth:`~rlnb.envs.EnvBase.set_seed`.
        """
        with self._quiet():
            self._root = None
            return self.env.set_seed(seed, static_seed=static_seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the state dicts of env and policy, and the progress of the collector.

        Returns:
            A dictionary with "env_state_dict", "policy_state_dict" (if the policy is a module), "frames", "iter",
            "traj_ids" (the number of trajectories with an id) and "policy_version" (if versions are tracked).
        """
        with self._quiet():
            state = {"env_state_dict": self.env.state_dict(), "frames": self.frames, "iter": self.iterations}
            state["traj_ids"] = self._ids.free
            if self._version is not None:
                state["policy_version"] = self._version
            if isinstance(self.policy, torch.nn.Module):
                state["policy_state_dict"] = self.policy.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict. The next batch starts with a reset.

        Its trajectories get ids that neither this collector nor the saved one has used. If loading fails, env and
        policy are left unchanged.

        Args:
            state_dict: the result of :meth:`state_dict`. "traj_ids" may be missing, as in older versions.

        Raises:
            KeyError: If another part is missing.
            ValueError: If "traj_ids" is not a non-negative integer.
            RuntimeError: If it does not fit the policy.
        """
        wanted = ["env_state_dict", "frames", "iter"]
        wanted += ["policy_state_dict"] if isinstance(self.policy, torch.nn.Module) else []
        missing = [name for name in wanted if name not in state_dict]
        if missing:
            raise KeyError(f"The state dict of a collector must have {wanted}, got one without {missing}.")
        given = given_ids(state_dict)
        with self._quiet():
            before = copy.deepcopy(self.state_dict())
            try:
                self._load(state_dict)
            except BaseException:
                self._load(before)
                raise
            self.frames, self.iterations = state_dict["frames"], state_dict["iter"]
            self._ids.free, self._root = max(given, self._ids.free), None
            if self._version is not None:
                self._version = state_dict.get("policy_version", self._version)

    def _load(self, state_dict: dict[str, Any]) -> None:
        self.env.load_state_dict(state_dict["env_state_dict"])
        if isinstance(self.policy, torch.nn.Module):
            self.policy.load_state_dict(state_dict["policy_state_dict"])

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Stop collecting in the background, if the collector does, and close the env.

        Args:
            timeout: seconds that a batch in the background is given to finish. Default: no limit.
            close_env: ``False`` leaves the env open.
            raise_on_error: ``False`` suppresses the errors of closing, and those that ended the background thread.
        """
        with contextlib.nullcontext() if raise_on_error else contextlib.suppress(Exception):
            try:
                self._background.stop(timeout)
            finally:
                self._root = None
                if close_env and not self.env.is_closed:
                    self.env.close()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Stop collecting in the background, and close the env; see :meth:`shutdown`."""
        self.shutdown(timeout, close_env)

    def __repr__(self) -> str:
        env = repr(self.env).replace("\n", "\n    ")
        return (
            f"{type(self).__name__}(\n    env={env},\n    frames_per_batch={self.frames_per_batch}, "
            f"total_frames={self.total_frames})"
        )


def _first_version(track: Any) -> int | None:
    """Return the version of a policy without updates, None if versions are not tracked."""
    if not isinstance(track, bool | None):
        raise TypeError(
            f"track_policy_version must be True or False, got a {type(track).__name__}. The Collector counts versions "
            "with integers. Fix: Collector(..., track_policy_version=True)."
        )
    return 0 if track else None


def _add_zeros(data: TensorDictBase, rows: Mapping[NestedKey, torch.Tensor]) -> None:
    """Add entries of zeros with the shape of their row at each step."""
    for key, row in rows.items():
        data.set(key, row.new_zeros((*data.batch_size, *row.shape)))


def as_single_steps(data: TensorDictBase) -> TensorDictBase:
    """Reshape a batch ``[*batch_size, time]`` to its single steps, ``[time * batch_size]``, in order of time."""
    return data.permute(-1, *range(data.ndim - 1)).reshape(-1)


def _private_keys(data: TensorDictBase) -> list[NestedKey]:
    return [key for key in data.keys(True) if any(part.startswith("_") for part in as_tuple(key))]


def _on_device(policy: Any, device: Any) -> Any:
    """Return the policy, or a copy on the device if its parameters are on another one."""
    if device is None or not isinstance(policy, torch.nn.Module):
        return policy
    device = torch.empty(0, device=device).device  # with its index
    tensors = [*policy.parameters(), *policy.buffers()]
    return policy if all(tensor.device == device for tensor in tensors) else copy.deepcopy(policy).to(device)


def _materialize(env: EnvBase, policy: Any, act: Callable[[TensorDictBase], TensorDictBase]) -> None:
    """Give the lazy layers of a policy their sizes, so that a loss can copy it before the first batch is collected."""
    if not isinstance(policy, torch.nn.Module) or not any(map(torch.nn.parameter.is_lazy, policy.parameters())):
        return
    given = env.fake_tensordict().exclude("next", *env.action_keys)
    # Zeros may be no legal input, such as a mask without a single True. The first batch then does it.
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC), contextlib.suppress(Exception):
        act(given)


#: The name of this class in older versions of TorchRL.
SyncDataCollector = Collector
