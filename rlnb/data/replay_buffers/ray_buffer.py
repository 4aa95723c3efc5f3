"""RayReplayBuffer, a replay buffer in a Ray actor, which processes on any machine of a cluster share."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from rlnb._ray import (
    ActorPlace,
    Packed,
    connect,
    how_it_was_lost,
    import_ray,
    is_connected,
    pack,
    session_of,
    unpack,
    why_not_placed,
)
from rlnb.data.replay_buffers.buffer import ReplayBuffer

__all__ = ["RayReplayBuffer"]

#: Options of TorchRL that choose how data travels, each with the values that mean Ray's object store.
_THROUGH_RAY: dict[str, tuple[Any, ...]] = {
    "transport": (None, "auto", "ray"),
    "transport_options": (None, {}),
    "service_backend": (None, "ray"),
    "service_backend_options": (None, {}),
}
_INSIDE = ("storage", "sampler", "writer", "transform")


def _remote(name: str) -> Any:
    """Return a method that calls the method of the same name in the actor."""

    def method(self: RayReplayBuffer, *args: Any, **kwargs: Any) -> Any:
        return self._call(name, *args, **kwargs)

    return functools.update_wrapper(method, getattr(ReplayBuffer, name))


def _remote_property(name: str) -> Any:
    """Return a property that reads the attribute of the same name in the actor."""
    return property(lambda self: self.read(name), doc=getattr(ReplayBuffer, name).__doc__)


def _inside(name: str) -> Any:
    """Return a property that raises: a copy of this part would change nothing in the actor."""

    def get(self: RayReplayBuffer) -> Any:
        raise AttributeError(
            f"The {name} of a RayReplayBuffer is in its actor: a copy of it here would change nothing there. "
            f"Fix: buffer.read({name + '.max_size'!r}) for an attribute, buffer.set_{name}(...) for another {name}."
            if name != "transform"
            else "The transform of a RayReplayBuffer is in its actor: a copy of it here would change nothing there. "
            "Fix: buffer.append_transform(...) to add one."
        )

    return property(get, doc=f"Raises ``AttributeError``: the {name} is in the actor.")


class RayReplayBuffer(ReplayBuffer):
    """A replay buffer in a Ray actor, with the methods of a :class:`ReplayBuffer`.

    The object can be sent to other actors and tasks, which then use the same buffer: a
    :class:`~rlnb.collectors.RayCollector` extends it from its actors, so that their data does not pass through the
    learner. Data travels through Ray's object store; what :meth:`sample` returns is a copy. Files, as for
    :meth:`dumps`, are written on the node of the actor. The actor ends with :meth:`shutdown`, or with the process that
    made the buffer.

    Args:
        replay_buffer_cls: class of the buffer in the actor.
        ray_init_config: keyword arguments of ``ray.init``, if this process is not connected to Ray yet.
        remote_config: resources and placement of the actor: options of Ray's actors, such as ``num_cpus``, ``memory``
            or ``scheduling_strategy``. Default: ``{"num_cpus": 1}``. With ``max_concurrency``, several calls run at
            once.
        timeout: seconds that a call waits for the actor. ``None`` waits without a limit.
        transport, transport_options: of TorchRL; only the values that mean Ray's object store are accepted.
        delayed_init: ignored; accepted for code written for TorchRL.
        **kwargs: arguments of the buffer. Components may be functions that make them, such as
            ``functools.partial(LazyTensorStorage, 1000)``: they are then made in the actor.

    Raises:
        ImportError: If Ray is not installed.
        TypeError: If an argument is unknown, of a wrong type, or cannot be pickled.
        TimeoutError: If no node has room for the actor.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from rlnb.data import LazyTensorStorage, TensorDict
        >>> buffer = RayReplayBuffer(storage=partial(LazyTensorStorage, 1000), batch_size=32)  # doctest: +SKIP
        >>> buffer.extend(TensorDict({"observation": torch.zeros(10, 4)}, [10]))  # doctest: +SKIP
        >>> len(buffer), buffer.sample().batch_size  # doctest: +SKIP
        (10, torch.Size([32]))
        >>> buffer.shutdown()  # doctest: +SKIP
    """

    def __init__(
        self,
        *args: Any,
        replay_buffer_cls: type[ReplayBuffer] = ReplayBuffer,
        ray_init_config: Mapping[str, Any] | None = None,
        remote_config: Mapping[str, Any] | None = None,
        timeout: float | None = 300.0,
        delayed_init: bool | None = None,
        **kwargs: Any,
    ) -> None:
        for name, accepted in _THROUGH_RAY.items():
            if kwargs.pop(name, None) not in accepted:
                raise NotImplementedError(
                    f"RayReplayBuffer sends its data through Ray's object store, and has no other {name}. "
                    f"Fix: leave {name} out."
                )
        if not isinstance(replay_buffer_cls, type) or not issubclass(replay_buffer_cls, ReplayBuffer):
            raise TypeError(
                f"replay_buffer_cls must be a class of replay buffers, got {replay_buffer_cls!r}. "
                "Fix: replay_buffer_cls=TensorDictReplayBuffer."
            )
        import_ray("RayReplayBuffer")
        packed = _pack_arguments(replay_buffer_cls, args, kwargs)
        ray = connect("RayReplayBuffer", ray_init_config)
        options = {"num_cpus": 1} if remote_config is None else dict(remote_config)
        self._kind, self._timeout, self._place = replay_buffer_cls, timeout, None
        self._options: dict[str, Any] = options
        self._session = session_of(ray)
        self._actor: Any = ray.remote(BufferActor).options(**options).remote()
        try:
            self._place = ActorPlace(*self._get(self._actor.make.remote(packed), "start"))
        except BaseException:
            ray.kill(self._actor)
            self._actor = None
            raise

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the buffer in the actor. What it raises is raised here."""
        what = name.strip("_")
        self._check_actor(what)
        result = self._get(self._actor.call.remote(name, pack((args, kwargs))), what)
        return self if result is _ITSELF else result

    def _check_actor(self, what: str) -> None:
        ray = import_ray("RayReplayBuffer")
        if self._actor is None:
            raise RuntimeError(
                f"{what} was called on a RayReplayBuffer after shutdown(), with which its actor has ended. "
                "Fix: RayReplayBuffer(...) makes a new one."
            )
        if not ray.is_initialized() or (self._session is not None and not is_connected(ray, self._session)):
            raise RuntimeError(
                f"Ray was shut down before {what}, and the actor of the RayReplayBuffer with it: its items are lost. "
                "Likely cause: ray.shutdown() in this process. Fix: RayReplayBuffer(...), and buffer.loads(path) if "
                "buffer.dumps(path) was called before."
            )

    def _get(self, ref: Any, what: str) -> Any:
        """Wait for an answer of the actor, and return or raise it."""
        import ray

        try:
            ok, packed = ray.get(ref, timeout=self._timeout)
        except ray.exceptions.GetTimeoutError:
            raise TimeoutError(self._too_late(what)) from None
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(f"{what} failed in the actor of a RayReplayBuffer: {error.cause}") from error
        except ray.exceptions.RayError as error:
            place = self._place
            how = how_it_was_lost(ray, place, error) if ray.is_initialized() else "Ray was shut down"
            raise RuntimeError(
                f"The actor of the RayReplayBuffer ({place or 'not placed yet'}) was lost in the middle of {what}: "
                f"{how}. Its items are lost with it. Fix: RayReplayBuffer(...), and buffer.loads(path) if "
                "buffer.dumps(path) was called before."
            ) from error
        result = unpack(packed)
        if not ok:
            raise result
        return result

    def _too_late(self, what: str) -> str:
        text = f"The actor of the RayReplayBuffer did not finish {what} within {self._timeout:g} s. "
        if self._place is None:
            no_room = (
                f"Likely cause: no node has room for an actor with {self._options}. "
                "Fix: remote_config={'num_cpus': 0}."
            )
            ray = import_ray("RayReplayBuffer")
            return text + why_not_placed(ray, self._options, no_room, "RayReplayBuffer(..., timeout=600)")
        return f"{text}If it takes that long, give more time: RayReplayBuffer(..., timeout=600)."

    # Everything else happens in the actor -----------------------------------------------------------------------------

    add, extend, sample, next, empty = map(_remote, ("add", "extend", "sample", "next", "empty"))
    update_priority, mark_update, can_sample = map(_remote, ("update_priority", "mark_update", "can_sample"))
    set_at_, set_, update_, write_all = map(_remote, ("set_at_", "set_", "update_", "write_all"))
    set_storage, set_sampler, set_writer = map(_remote, ("set_storage", "set_sampler", "set_writer"))
    append_transform, insert_transform = map(_remote, ("append_transform", "insert_transform"))
    state_dict, load_state_dict, stats = map(_remote, ("state_dict", "load_state_dict", "stats"))
    dumps, loads, dump, load, save = map(_remote, ("dumps", "loads", "dump", "load", "save"))
    register_save_hook, register_load_hook = map(_remote, ("register_save_hook", "register_load_hook"))
    read_all_in_order, __getitem__, __setitem__ = map(_remote, ("read_all_in_order", "__getitem__", "__setitem__"))
    __len__ = _remote("__len__")
    batch_size, dim_extend, write_count = map(_remote_property, ("batch_size", "dim_extend", "write_count"))
    storage, sampler, writer, transform = map(_inside, _INSIDE)

    def update_tensordict_priority(self, data: Any) -> None:
        """Change the priorities of the items of a sample; see :class:`~rlnb.data.TensorDictReplayBuffer`."""
        self._call("update_tensordict_priority", data)

    def read(self, name: str) -> Any:
        """Return an attribute of the buffer in the actor, such as ``"storage.max_size"``.

        Raises:
            AttributeError: If there is no such attribute.
        """
        self._check_actor("read")
        return self._get(self._actor.read.remote(name), "read")

    def set_rng(self, generator: Any) -> None:
        """Set the state of the generator of the buffer, which is another one than this: it is in the actor."""
        self._check_actor("set_rng")
        self._get(self._actor.set_rng.remote(pack(generator.get_state())), "set_rng")

    def __iter__(self) -> Iterator[Any]:
        self._check_actor("iteration")
        token = self._get(self._actor.begin.remote(), "iteration")
        try:
            while True:
                batch = self._get(self._actor.draw.remote(token), "iteration")
                if batch is _LAST:
                    return
                yield batch
        finally:
            if self._actor is not None:
                self._actor.end.remote(token)

    def share(self, shared: bool = True) -> Self:
        """Return the buffer: any process of the cluster can use it."""
        return self

    def _shareable(self) -> bool:
        return False  # a collector that has processes of its own writes from the process that made it

    def place(self) -> dict[str, Any] | None:
        """Return where the actor runs: a dictionary with "actor", "pid", "ip" and "node"."""
        return None if self._place is None else self._place._asdict()

    def shutdown(self, timeout: float | None = None) -> None:
        """End the actor, and with it the items.

        Args:
            timeout: has no effect: the actor ends at once.
        """
        actor, self._actor = self._actor, None
        if actor is not None:
            ray = import_ray("RayReplayBuffer")
            if ray.is_initialized():
                ray.kill(actor)

    close = shutdown

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}  # it is that of another process

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __repr__(self) -> str:
        ended = ", shut down" if self._actor is None else ""
        return f"RayReplayBuffer(replay_buffer_cls={self._kind.__name__}{ended})"


def _pack_arguments(kind: Any, args: Any, kwargs: dict[str, Any]) -> Packed:
    try:
        return pack((kind, args, kwargs))
    except Exception as error:
        name = next((name for name, value in kwargs.items() if not _is_picklable(value)), "an argument")
        raise TypeError(
            f"{name} cannot be sent to the actor of a RayReplayBuffer: it cannot be pickled ({type(error).__name__}: "
            f"{error}). Fix: a function that makes it there, such as storage=partial(LazyTensorStorage, 1000)."
        ) from error


def _is_picklable(value: Any) -> bool:
    try:
        pack(value)
    except Exception:
        return False
    return True


# In the actor -----------------------------------------------------------------------------------------------------


class _Marker:
    """A value that is the same object in all processes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return self.name


_ITSELF, _LAST = _Marker("_ITSELF"), _Marker("_LAST")


class BufferActor:
    """A Ray actor with a replay buffer. Each answer is packed, and says whether it is a result or an exception."""

    def __init__(self) -> None:
        self.buffer: Any = None
        self.iterators: dict[int, Iterator[Any]] = {}
        self.tokens = itertools.count()

    def make(self, packed: Packed) -> tuple[bool, Packed]:
        """Make the buffer; return where it is."""

        def make() -> Any:
            kind, args, kwargs = unpack(packed)
            self.buffer = kind(*args, **kwargs)
            return tuple(ActorPlace.here())

        return _answer(make)

    def call(self, name: str, packed: Packed) -> tuple[bool, Packed]:
        """Call a method of the buffer."""

        def call() -> Any:
            args, kwargs = unpack(packed)
            result = getattr(self.buffer, name)(*args, **kwargs)
            return _ITSELF if result is self.buffer else result

        return _answer(call)

    def read(self, name: str) -> tuple[bool, Packed]:
        """Return an attribute of the buffer."""

        def read() -> Any:
            found = self.buffer
            for part in name.split("."):
                found = getattr(found, part)
            return found

        return _answer(read)

    def set_rng(self, packed: Packed) -> tuple[bool, Packed]:
        """Give the buffer a generator with a state."""
        import torch

        def set_rng() -> None:
            generator = torch.Generator()
            generator.set_state(unpack(packed))
            self.buffer.set_rng(generator)

        return _answer(set_rng)

    def begin(self) -> tuple[bool, Packed]:
        """Begin to iterate over the buffer; return a number that stands for the iterator."""

        def begin() -> int:
            token = next(self.tokens)
            self.iterators[token] = iter(self.buffer)
            return token

        return _answer(begin)

    def draw(self, token: int) -> tuple[bool, Packed]:
        """Return the next batch of an iterator."""
        return _answer(lambda: next(self.iterators[token], _LAST))

    def end(self, token: int) -> None:
        """Forget an iterator."""
        self.iterators.pop(token, None)


def _answer(function: Callable[[], Any]) -> tuple[bool, Packed]:
    """Pack the result of a function, or what it raises."""
    try:
        return True, pack(function())
    except Exception as error:
        try:
            return False, pack(error.with_traceback(None))
        except Exception:  # it cannot be pickled
            return False, pack(RuntimeError(f"{type(error).__name__}: {error}"))
