"""Recorders: transforms that keep frames or whole steps of an env, and write them to a video or a file.

A recorder changes nothing that the env returns. It keeps what passes through it until ``dump()`` writes it, and at most
``max_bytes`` of it.
"""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.block import EnvRows
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.stacking import stack_steps
from rlnb.envs.transforms.images import center_cropped
from rlnb.envs.transforms.rows import Reset, RowRule, Step, choose_rows, find_mask
from rlnb.envs.transforms.transform import Keys, ObservationTransform, Transform, key_list
from rlnb.record.loggers.common import Logger
from rlnb.record.video import image_grid, write_whole

MAX_BYTES = 2**30
"""The most bytes that a recorder keeps by default."""

_BLOCK = 2**24


class VideoRecorder(ObservationTransform):
    """Records images of an env, and writes them to a logger as one video.

    Each reset and each step is a frame, so that a rollout of T steps without a reset in between gives T + 1 frames. The
    images of a batch of envs are laid out as a grid; an env that is reset alone changes its image alone.

    Frames are kept until :meth:`dump` is called, and at most ``max_bytes`` of them: then it warns once, and records no
    more until the next :meth:`dump`.

    Without an env, as a transform of a buffer or called as a module, each image of the data is a frame. Put it around a
    batch of envs rather than into each of them, where each would write a video of the same name.

    Args:
        logger: where the video is written, such as ``CSVLogger("run", video_format="mp4")``.
        tag: name of the video in the logger.
        in_keys: the entry with the images, uint8 of shape ``[..., H, W, C]`` or ``[..., C, H, W]`` with one or three
            channels; tensors, or arrays in non-tensor data. Default: "pixels".
        skip: record each ``skip``-th frame, beginning with the first. Default: 2 in an env, 1 without one.
        center_crop: record only the center of each image, of this many rows and columns. Default: all of it.
        make_grid: whether the images of a batch are one frame, laid out as a grid. Default: True in an env. Without
            one, False: they follow one another in time.
        out_keys: entry to copy the images to. Default: they stay where they are.
        fps: frames per second. Default: that of the logger.
        max_bytes: the most bytes of frames to keep. Default: 1 GiB.
        **kwargs: further arguments of the logger's ``log_video``.

    Raises:
        TypeError: If the logger cannot log videos. While recording: if an image is not uint8.
        ValueError: If there are several ``in_keys``, or a number is not positive. While recording: if an entry is not
            an image, the images change their shape, or there are several where ``make_grid=False`` expects one.

    Example:
        >>> import tempfile
        >>> from rlnb.envs import GymEnv
        >>> from rlnb.record import CSVLogger, read_video
        >>> logger = CSVLogger("run", log_dir=tempfile.mkdtemp(), video_format="pt")
        >>> env = GymEnv("CartPole-v1", from_pixels=True)
        >>> env = env.append_transform(VideoRecorder(logger, tag="rendered", skip=1))
        >>> rollout = env.rollout(5)
        >>> env.transform.dump()
        >>> read_video(logger.folder / "videos/rendered_0.pt").shape
        torch.Size([6, 3, 400, 600])
    """

    _default_keys = ("pixels",)
    _shown = ("tag", "keys")

    def __init__(
        self,
        logger: Logger,
        tag: str,
        in_keys: Keys | None = None,
        skip: int | None = None,
        center_crop: int | None = None,
        make_grid: bool | None = None,
        out_keys: Keys | None = None,
        fps: float | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        if not callable(getattr(logger, "log_video", None)):
            raise TypeError(
                f"VideoRecorder takes a logger that can log videos, got {logger!r}. "
                "Fix: VideoRecorder(CSVLogger('run', video_format='mp4'), tag='video')."
            )
        for name, value in (("skip", skip), ("center_crop", center_crop), ("max_bytes", max_bytes)):
            _check_positive(name, value)
        super().__init__(in_keys, out_keys)
        if len(self.in_keys) != 1:
            raise ValueError(
                f"VideoRecorder records one entry, got in_keys={self.in_keys}. "
                "Fix: one VideoRecorder for each entry, each with a tag of its own."
            )
        self.logger, self.tag, self.fps, self.log_options = logger, tag, fps, kwargs
        self.skip, self.center_crop, self.make_grid, self.max_bytes = skip, center_crop, make_grid, max_bytes
        self._frames = _Frames(max_bytes)
        self._clear()

    def _clear(self) -> None:
        """Start a new video."""
        self._frames.clear()
        self._form: tuple[torch.Size, int] | None = None  # shape of a frame before it is cropped, and its channels

    def _forget(self) -> None:
        super()._forget()
        self._last: torch.Tensor | None = None
        self._mask: torch.Tensor | None = None
        if "max_bytes" in self.__dict__:  # a clone starts a video of its own
            self._frames = _Frames(self.max_bytes)
            self._clear()

    def __len__(self) -> int:
        """Count the frames that are kept."""
        return len(self._frames)

    @property
    def nbytes(self) -> int:
        """Bytes of the frames that are kept; at most ``max_bytes``."""
        return self._frames.nbytes

    # Recording ----------------------------------------------------------------------------------------------------

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        key, out_key = self.in_keys[0], self.out_keys[0]
        value = self._read(next_tensordict, key)
        if value is not None:
            images = _as_images(value)
            if self._mask is not None:  # the other rows of a reset are undefined
                images = choose_rows(self._mask, images, self._last, next_tensordict.ndim)
            self._record(images, next_tensordict.ndim, self._env() is not None)
            self.__dict__["_last"] = images  # not through torch.nn.Module, which would look for a buffer of that name
            if out_key != key:
                next_tensordict.set(out_key, value)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._mask = find_mask(tensordict, self.in_keys[0])
        try:
            return super()._reset(tensordict, tensordict_reset)
        finally:
            self._mask = None

    def _record(self, images: torch.Tensor, batch_dims: int, in_env: bool) -> None:
        """Keep images ``[*batch, ...]``: as one frame in an env, and otherwise as one frame each."""
        grid = in_env if self.make_grid is None else self.make_grid
        if images.dtype is not torch.uint8:
            raise TypeError(
                f"VideoRecorder {self.tag!r} records images of dtype torch.uint8, from 0 to 255, and "
                f"{self.in_keys[0]!r} has {images.dtype}. Likely cause: it comes after ToTensorImage. "
                "Fix: put it before that transform, as in Compose(VideoRecorder(logger, tag), ToTensorImage())."
            )
        frames = [images]
        if not grid and images.ndim > 3 and not in_env:
            frames, batch_dims = list(images.flatten(0, -4)), 0
        for frame in frames:
            if self._form is None or self._form[0] != frame.shape:
                self._use_form(frame.shape, batch_dims, grid)
            if self.center_crop is not None:
                frame = self._cropped(frame)
            if not self._frames.offer(frame.detach().cpu().numpy(), self._every(in_env)):
                self._warn()

    def _use_form(self, shape: torch.Size, batch_dims: int, grid: bool) -> None:
        """Learn the form of the frames from the first one, and raise an error at one of another form."""
        if self._form is not None:
            raise ValueError(
                f"VideoRecorder {self.tag!r} records images of one shape, and {self.in_keys[0]!r} changes from "
                f"{list(self._form[0])} to {list(shape)}. Fix: scale them to one size before it, with Resize or the "
                "preproc of PixelRenderTransform, or call dump() in between."
            )
        channels = [dim for dim in (-1, -3) if len(shape) - batch_dims >= 3 and shape[dim] in (1, 3)]
        if not channels:
            batched = f", {batch_dims} of them of the batch" if batch_dims else ""
            raise ValueError(
                f"VideoRecorder {self.tag!r} records images [..., H, W, C] or [..., C, H, W] with 1 or 3 channels, and "
                f"{self.in_keys[0]!r} has the dimensions {list(shape)}{batched}. "
                "Fix: name the entry with the images, in_keys=['pixels'], or add a channel with UnsqueezeTransform."
            )
        if not grid and shape[:-3].numel() > 1:
            raise ValueError(
                f"VideoRecorder {self.tag!r} records one image a step with make_grid=False, and got a batch of "
                f"{shape[:-3].numel()}, of shape {list(shape)}. Fix: make_grid=True, which lays them out as a grid, or "
                "record one env of the batch alone."
            )
        self._form = shape, channels[0]

    def _warn(self) -> None:
        _warn_full(self, f"VideoRecorder {self.tag!r}", f"{len(self):,} frames")

    def _every(self, in_env: bool) -> int:
        return self.skip if self.skip is not None else 2 if in_env else 1

    def _cropped(self, images: torch.Tensor) -> torch.Tensor:
        assert self._form is not None and self.center_crop is not None
        last = self._form[1] == -1
        images = images.movedim(-1, -3) if last else images
        images = center_cropped(images, self.center_crop, self.center_crop)
        return images.movedim(-3, -1) if last else images

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        key, out_key = self.in_keys[0], self.out_keys[0]
        spec = output_spec["full_observation_spec"].get(key)
        if spec is None or spec.dtype is not torch.uint8 or out_key != key or self.center_crop is not None:
            return None

        def bind(before: EnvRows, after: EnvRows) -> tuple[Step, Reset]:
            root, following, every = after.root[key], after.next[key], self._every(True)

            def record(rows: np.ndarray, t: int) -> None:
                row = rows[t]
                if self._form is None or self._form[0] != row.shape:
                    self._use_form(torch.Size(row.shape), 0, True)
                if not self._frames.offer(row, every):
                    self._warn()

            def step(t: int) -> bool:
                record(following, t)
                return False

            return step, lambda t: record(root, t)

        return RowRule(bind, [], [])

    # Writing ------------------------------------------------------------------------------------------------------

    def dump(self, suffix: str | None = None, step: int | None = None) -> None:  # type: ignore[override]
        """Write the video to the logger, and forget its frames. Without frames it does nothing.

        If the logger raises an error, the frames are kept.

        Args:
            suffix: added to the tag, after an underscore.
            step: position of the video in its series. Default: that of the logger.
        """
        if not self._frames:
            return
        tag = self.tag if suffix is None else f"{self.tag}_{suffix}"
        options = self.log_options if self.fps is None else {"fps": self.fps, **self.log_options}
        self.logger.log_video(tag, self._video()[None], step=step, **options)
        self._clear()

    def _video(self) -> torch.Tensor:
        """Return the video, uint8 of shape ``[T, C, H, W]``."""
        assert self._form is not None
        frames = torch.from_numpy(self._frames.stacked())
        if self._form[1] == -1:
            frames = frames.movedim(-1, -3)
        if frames.ndim == 4:
            return frames
        return torch.stack([image_grid(images) for images in frames.flatten(1, -4)])


class _Frames:
    """Frames of one shape, copied into blocks of memory as they come, up to a number of bytes.

    Memory that is new to the process costs more than the copy: 84 x 84 frames take 4 us each in a block that is used
    again, 9 us in a new one of 16 MiB and 20 us in an array for each frame.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.spare: np.ndarray | None = None
        self.blocks: list[np.ndarray] = []
        self.clear()

    def clear(self) -> None:
        """Forget all frames, but keep a block for the next ones."""
        self.spare = self.blocks[0] if self.blocks else self.spare
        self.seen = self.kept = 0
        self.full = False
        self.blocks = []
        self.room = 0  # in the last block

    def __len__(self) -> int:
        return self.kept

    def offer(self, frame: np.ndarray, every: int) -> bool:
        """Copy every ``every``-th of the frames that are offered; return ``False`` at the first that has no room."""
        seen = self.seen
        self.seen = seen + 1
        if seen % every or self.full:
            return True
        if not self.room and not self._add_block(frame):
            self.full = True
            return False
        self.blocks[-1][-self.room] = frame
        self.room -= 1
        self.kept += 1
        return True

    def _add_block(self, frame: np.ndarray) -> bool:
        spare, self.spare = self.spare, None
        if spare is None or spare.shape[1:] != frame.shape:
            room = min(max(_BLOCK // frame.nbytes, 1), (self.max_bytes - self.nbytes) // frame.nbytes)
            spare = np.empty((room, *frame.shape), np.uint8)
        self.room = len(spare)
        self.blocks += [spare] if self.room else []
        return bool(self.room)

    @property
    def nbytes(self) -> int:
        """Bytes of the frames."""
        return self.kept * self.blocks[0][0].nbytes if self.blocks else 0

    def stacked(self) -> np.ndarray:
        """Return all frames, ``[T, ...]``."""
        last = self.blocks[-1]
        return np.concatenate([*self.blocks[:-1], last[: len(last) - self.room]])


class TensorDictRecorder(Transform):
    """Records steps of an env, and writes them to a file as one TensorDict in the TED format.

    A file that records all steps (``skip=1``) of a rollout equals the rollout. Later transforms of the chain do not
    change what was recorded. ``RolloutPlayer`` plays it.

    Steps are kept until :meth:`dump` is called, and at most ``max_bytes`` of them: then it warns once, and records no
    more until the next :meth:`dump`.

    Args:
        out_file_base: beginning of the names of the files, folder included.
        skip_reset: with ``skip``, treat the step after a reset like any other. ``False`` records it in any case, so
            that the recording has the start of each episode.
        skip: record each ``skip``-th step, beginning with the first. 1: all.
        in_keys: entries to keep, each at the root and under "next". Default: all.
        max_bytes: the most bytes to keep. Default: 1 GiB.

    Raises:
        ValueError: If a number is not positive.

    Example:
        >>> import os, tempfile, torch
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> base = os.path.join(tempfile.mkdtemp(), "cartpole")
        >>> env = TransformedEnv(CartPoleEnv(), TensorDictRecorder(base, skip=1))
        >>> rollout = env.rollout(10)
        >>> env.transform.dump()
        >>> recording = torch.load(f"{base}_0.pt")
        >>> recording.batch_size, bool((recording == rollout).all())
        (torch.Size([10]), True)
    """

    _env_only = "records the steps of its env"
    _shown = ("out_file_base", "keys")

    def __init__(
        self,
        out_file_base: str | os.PathLike[str],
        skip_reset: bool = True,
        skip: int = 4,
        in_keys: Keys | None = None,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        _check_positive("skip", skip)
        _check_positive("max_bytes", max_bytes)
        super().__init__(in_keys)
        self.out_file_base, self.skip_reset, self.skip = os.fspath(out_file_base), skip_reset, skip
        self.selects, self.max_bytes = in_keys is not None, max_bytes
        self._dumps = 0
        self._clear()

    def _clear(self) -> None:
        self._steps: list[tuple[torch.Size, dict[NestedKey, Any]]] = []
        self._seen = self._held = 0
        self._warned = self._was_reset = False

    def _forget(self) -> None:
        super()._forget()
        self._clear()  # a clone starts a recording of its own

    def __len__(self) -> int:
        """Count the steps that are kept."""
        return len(self._steps)

    @property
    def nbytes(self) -> int:
        """Bytes of the steps that are kept; at most ``max_bytes``."""
        return self._held

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        wanted = self._seen % self.skip == 0 or (self._was_reset and not self.skip_reset)
        self.__dict__.update(_seen=self._seen + 1, _was_reset=False)  # torch.nn.Module sets an attribute in 3 us
        if wanted and not self._warned:
            # A TensorDict is built from these entries when they are written: building one takes as long as the copies.
            entries = {key: tensordict.get(key).clone() for key in self._wanted(tensordict)}
            for key in self._wanted(next_tensordict):
                entries["next", *as_tuple(key)] = next_tensordict.get(key).clone()
            self._add(tensordict.batch_size, entries)
        return next_tensordict

    def _wanted(self, data: TensorDictBase) -> list[NestedKey]:
        if self.selects:
            found = [key for key in self.in_keys if data.get(key, None) is not None]
            if not found and not self.missing_tolerance:
                self._need(data, self.in_keys[0])
            return found
        return [key for key in leaf_keys(data) if as_tuple(key)[0] not in ("next", "_step", "_reset")]

    def _add(self, batch_size: torch.Size, entries: dict[NestedKey, Any]) -> None:
        nbytes = sum(value.nbytes for value in entries.values() if isinstance(value, torch.Tensor))
        if self._held + nbytes > self.max_bytes:
            _warn_full(self, f"TensorDictRecorder {self.out_file_base!r}", f"{len(self._steps):,} steps")
            self._warned = True
            return
        self.__dict__["_held"] += nbytes
        self._steps.append((batch_size, entries))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._was_reset = True
        return tensordict_reset

    def _forward_specs(self, composite: Composite) -> Composite:
        return composite

    def dump(self, suffix: str | None = None, step: int | None = None) -> None:  # type: ignore[override]
        """Write the steps to the file ``<out_file_base>_<suffix>.pt``, which ``torch.load`` reads, and forget them.

        The file appears once it is complete. If it cannot be written, the steps are kept. Without steps, nothing is
        written.

        Args:
            suffix: end of the name. Default: ``step`` if it is given, otherwise the number of files so far.
            step: see ``suffix``.

        Raises:
            OSError: If the file cannot be written.
        """
        if not self._steps:
            return
        dims = len(self._steps[0][0])
        steps = [TensorDict(entries, batch_size) for batch_size, entries in self._steps]
        recording = stack_steps(steps, dims, [*[None] * dims, "time"])
        path = Path(
            f"{self.out_file_base}_{suffix if suffix is not None else self._dumps if step is None else step}.pt"
        )
        write_whole(path, lambda file: torch.save(recording, file))
        self._dumps += 1
        self._clear()


class PixelRenderTransform(Transform):
    """Renders the env after each reset and each step, and adds the image to the data.

    It works around a single env, around a batch of envs, whose images become one entry ``[*batch_size, H, W, C]``, and
    inside each env of a batch. To find out the shape of the images, it renders the env when it is added, which resets
    an env that was not reset yet.

    Args:
        out_keys: the entry to write. Default: "pixels".
        preproc: function that is applied to what is rendered, an array ``[H, W, C]`` or ``[*batch_size, H, W, C]``.
        as_non_tensor: whether to write the image as non-tensor data, which may change its shape from step to step.
            Default: only if it is not an array of numbers.
        render_method: name of the env's method.
        pass_tensordict: whether the method takes the data of the step, as envs without a state need it.
        **kwargs: arguments of the method.

    Raises:
        ValueError: If there are several ``out_keys``. In an env: if the entry exists already, or an image has another
            shape than those before.
        AttributeError: If the env has no such method.
        RuntimeError: If the env renders nothing, such as one made without ``render_mode``.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> env = GymEnv("CartPole-v1", render_mode="rgb_array")
        >>> env = env.append_transform(PixelRenderTransform(preproc=lambda image: image[::4, ::4]))
        >>> env.rollout(3)["next", "pixels"].shape
        torch.Size([3, 100, 150, 3])
    """

    _env_only = "renders its env"
    _shown = ("out_keys",)

    def __init__(
        self,
        out_keys: Keys | None = None,
        preproc: Callable[[Any], Any] | None = None,
        as_non_tensor: bool | None = None,
        render_method: str = "render",
        pass_tensordict: bool = False,
        **kwargs: Any,
    ) -> None:
        keys = key_list("pixels" if out_keys is None else out_keys, "out_keys")
        if len(keys) != 1:
            raise ValueError(f"PixelRenderTransform writes one entry, got out_keys={keys}. Fix: out_keys=['pixels'].")
        super().__init__()
        self.out_keys = keys
        self.preproc, self.as_non_tensor = preproc, as_non_tensor
        self.render_method, self.pass_tensordict, self.render_options = render_method, pass_tensordict, kwargs

    def _forget(self) -> None:
        super()._forget()
        self._spec: TensorSpec | None = None
        self._rendered: weakref.ref[Any] | None = None

    def clone(self) -> Self:
        """Copy the transform, without its container; see :meth:`Transform.clone`."""
        new = super().clone()
        # An env that is made to look at the predecessors of a transform must not be rendered again.
        new._spec, new._rendered = self._spec, self._rendered
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rendered": None}

    def _render(self, env: Any, data: TensorDictBase | None) -> Any:
        """Render an env: an array ``[*batch_size, ...]``, or whatever else it or ``preproc`` returns."""
        render, options = getattr(env, self.render_method), self.render_options
        if self.render_method == "render":  # the render of some batches shows one of their envs
            options = {**getattr(env, "_render_each", {}), **options}
        image = render(data, **options) if self.pass_tensordict else render(**options)
        if isinstance(image, (list, tuple)) and env.batch_size:
            image = self._stacked(image, env.batch_size)
        return image if self.preproc is None else self.preproc(image)

    def _stacked(self, images: Any, batch_size: torch.Size) -> Any:
        """Stack the images of a batch of envs."""
        shapes = {np.shape(image) for image in images}
        if len(shapes) > 1:
            raise ValueError(
                f"PixelRenderTransform stacks the images of a batch, and these have different shapes: "
                f"{sorted(map(list, shapes))}. Fix: put it into each env, with a preproc that returns one size."
            )
        stacked = np.stack([np.asarray(image) for image in images])
        return stacked.reshape(*batch_size, *stacked.shape[1:])

    def _value(self, image: Any, batch_size: torch.Size) -> Any:
        """Convert what was rendered to an entry."""
        if self.as_non_tensor is not True:
            tensor = image if isinstance(image, torch.Tensor) else _as_tensor(image)
            if tensor is not None:
                return tensor
            if self.as_non_tensor is False:
                raise TypeError(
                    f"PixelRenderTransform(as_non_tensor=False) takes an image of numbers, and {self.render_method} "
                    f"gave a {type(image).__name__}. Fix: preproc=numpy.asarray, or as_non_tensor=True."
                )
        if batch_size and len(image) == batch_size[0]:
            return NonTensorStack(*[self._value_of_one(one, batch_size[1:]) for one in image])
        return NonTensorData(image, batch_size=batch_size)

    def _value_of_one(self, image: Any, batch_size: torch.Size) -> Any:
        return self._value(image, batch_size) if batch_size else NonTensorData(image)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        holder = self._env()
        assert holder is not None and self._spec is not None
        base = holder.base_env
        value = self._value(self._render(base, next_tensordict), base.batch_size)
        if isinstance(value, torch.Tensor):
            if value.shape != self._spec.shape:
                raise self._changed(value.shape)
            if next_tensordict.device is not None:
                value = value.to(next_tensordict.device)
        next_tensordict.set(self.out_keys[0], value)
        return next_tensordict

    def _changed(self, shape: torch.Size) -> ValueError:
        assert self._spec is not None
        return ValueError(
            f"PixelRenderTransform writes images of one shape, {list(self._spec.shape)}, and {self.render_method} gave "
            f"one of {list(shape)}. Fix: a preproc that scales them to one size, or as_non_tensor=True."
        )

    def _new_keys(self) -> list[NestedKey]:
        return self.out_keys

    def _forward_specs(self, composite: Composite) -> Composite:
        return composite

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the spec of the images; see :class:`Transform`. It renders the env once."""
        self._need_composite(observation_spec)
        holder = self._env()
        if holder is not None:
            base = holder.base_env
            if self._rendered is None or self._rendered() is not base:
                self._spec, self._rendered = self._first_spec(base), weakref.ref(base)
        if self._spec is not None:
            observation_spec.set(self.out_keys[0], self._spec.clone())
        return observation_spec

    def _first_spec(self, env: Any) -> TensorSpec:
        value = self._value(self._first_image(env), env.batch_size)
        if not isinstance(value, torch.Tensor):
            batched = bool(env.batch_size)
            data = value.tolist() if batched else value.data
            example = data[0] if batched else data
            return NonTensor(shape=env.batch_size, device=env.device, example_data=example, batched=batched)
        if value.dtype is torch.uint8:
            return Bounded(0, 255, shape=value.shape, dtype=torch.uint8, device=env.device)
        return Unbounded(shape=value.shape, dtype=value.dtype, device=env.device)

    def _first_image(self, env: Any) -> Any:
        """Render an env that perhaps was not reset yet."""
        getattr(env, self.render_method)  # an env without that method is not reset
        image = None
        if not self.pass_tensordict:
            with contextlib.suppress(Exception):  # envs raise whatever they like before the first reset
                image = self._render(env, None)
        if image is None:
            image = self._render(env, env.reset())
        if image is None:
            raise RuntimeError(
                f"{self.render_method}() of {type(env).__name__} returned None, so there is no image. "
                "Fix: make the env with render_mode='rgb_array'."
            )
        return image

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        key, holder = self.out_keys[0], self._env()
        if holder is None or self._spec is None or self._spec.dtype is None or self.pass_tensordict:
            return None
        base = holder.base_env

        def bind(before: EnvRows, after: EnvRows) -> tuple[Step, Reset]:
            root, following = after.root[key], after.next[key]

            def write(rows: np.ndarray, t: int) -> None:
                image = self._render(base, None)
                if np.shape(image) != rows.shape[1:]:
                    raise self._changed(torch.Size(np.shape(image)))
                rows[t] = image

            def step(t: int) -> bool:
                write(following, t)
                return False

            return step, lambda t: write(root, t)

        return RowRule(bind, [], [key])


def _as_images(value: Any) -> torch.Tensor:
    """Return images as a tensor, also those of non-tensor data."""
    if isinstance(value, torch.Tensor):
        return value
    data = value.tolist() if isinstance(value, NonTensorStack) else getattr(value, "data", value)
    return data if isinstance(data, torch.Tensor) else torch.from_numpy(np.array(data))


def _as_tensor(image: Any) -> torch.Tensor | None:
    """Copy an array of numbers to a tensor; return ``None`` for anything else."""
    if not isinstance(image, np.ndarray) or image.dtype.kind not in "buif":
        return None
    return torch.from_numpy(np.array(image))


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")


def _warn_full(recorder: Any, name: str, kept: str) -> None:
    warnings.warn(
        f"{name} keeps {kept}, {recorder.nbytes:,} bytes, and the next one would exceed its limit, "
        f"max_bytes={recorder.max_bytes:,}. It records no more until dump() is called. Fix: call env.transform.dump() "
        "more often, record less with skip= or smaller images, or raise max_bytes.",
        RuntimeWarning,
        stacklevel=2,
    )
