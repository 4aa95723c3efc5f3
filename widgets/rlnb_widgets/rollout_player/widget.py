"""The live player: a widget whose frames, strips and playhead live in the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import traitlets

from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.packing import AS_JSON
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.rollout_player.model import PlayerModel, player_model
from rlnb_widgets.rollout_player.payload import player_payload
from rlnb_widgets.rollout_player.recordings import opened
from rlnb_widgets.rollout_player.scene import player_svg
from rlnb_widgets.rollout_player.text import player_explanation, player_headline, player_text

_HERE = Path(__file__).parent


class RolloutPlayer(TimeTraits, Visualizer):
    r"""Plays a rollout: frames above synchronized strips, and the TED row at the playhead.

    The page holds all data, so moving the playhead never needs Python. Keys: space plays, the arrows move by one step,
    Page Up and Page Down by ten, Home and End to the ends, ``n`` and ``p`` to the next and previous mark, ``+``, ``-``
    and ``0`` zoom, ``[`` and ``]`` limit the range that is played, ``\`` removes the limit.

    An episode ends at an end signal in ``"next"``, where padding begins by a mask, and where another trajectory begins.
    A trajectory begins with a new number in ``("collector", "traj_ids")``, ``"traj_ids"`` or ``"episode"``, otherwise
    with ``"is_init"`` or a decreasing ``"step_count"``. Without any of these, a row that does not continue the previous
    one is taken for the seam of a flattened batch ``[B, T]`` if all such rows divide the data into equal parts, and for
    another trajectory if both root and ``"next"`` jump farther than any step of the data. Any other row whose root is
    not the ``"next"`` of the previous row ends no episode; a note reports their number. NaN on only one side does not
    count as a difference.

    Args:
        rollout: TensorDict ``[T]`` or ``[*B, T]`` in TED format. Missing entries are reported and left out. Or the path
            of a recording: a file of ``TensorDictRecorder``, or a video of ``CSVLogger`` (pt, gif or mp4). Or a replay
            buffer or dataset, whose first 10,000 steps are shown, in the order of its storage.
        env: The environment that draws the states, or its id. It is not run.
        frames: Images, one per step, ``[T, H, W, C]`` or ``[B, T, H, W, C]``; an additional one may show the state
            after the last step. Default: ``"pixels"`` of the rollout if present, else the drawing of the env.
        fps: Steps per second at speed 1.
        strips: The strips below reward and return: keys, or keys with the index of a component last, such as
            ``("observation", 2)``; one of these, or a list. None: a selection.
        envs: The environments of a batch to show, as one flat index or several. None: the first 16.
        compare: A second rollout or recording, shown next to the first one, with the first step at which they diverge.
        labels: Names of the environments that are shown, one each, or of two rollouts to compare. None: their indices,
            or a and b.
        max_bytes: The most bytes of encoded images; beyond that frames are left out, with a note.
        t: First position of the playhead.
        speed: Factor on `fps`.
        loop: Whether playing starts over at the end.

    Attributes:
        model: The plain values that are shown, a `PlayerModel`.
        selected_env: The environment that the strips and the row show.

    Raises:
        TypeError: If the rollout is neither a TensorDict nor a path, `env` is not an environment, or an argument is
            unknown.
        ValueError: If the rollout is empty or has no time dimension, the shape of `frames` does not match, `labels` are
            too few, too many or for a comparison, or a file is not a recording.
        FileNotFoundError: If there is no recording at the path.
        KeyError: If a key in `strips` is missing.
        IndexError: If `envs` or `strips` name an environment or component that does not exist.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([[False], [True], [False]])
        >>> td = TensorDict({"next": {"reward": torch.ones(3, 1), "done": done, "terminated": done}}, [3])
        >>> print(repr(RolloutPlayer(td)).splitlines()[0])
        RolloutPlayer: 3 steps, 1 environment, 2 episodes
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")

    selected_env = traitlets.Int(0).tag(sync=True)
    _head = traitlets.Dict().tag(**AS_JSON)
    _columns = traitlets.Bytes().tag(sync=True)
    _pictures = traitlets.Bytes().tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        rollout: Any,
        env: Any = None,
        *,
        frames: Any = None,
        fps: float = 30.0,
        strips: Any = None,
        envs: int | Iterable[int] | None = None,
        compare: Any = None,
        labels: Sequence[str] | None = None,
        max_bytes: int = 8_000_000,
        t: int = 0,
        speed: float = 1.0,
        loop: bool = False,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        (rollout, note), (compare, _) = opened(rollout), opened(compare)
        model = player_model(
            rollout, env, frames=frames, strips=strips, envs=envs, compare=compare, labels=labels, max_bytes=max_bytes
        )
        model = replace(model, notes=(note, *model.notes)) if note else model
        head, columns, pictures = player_payload(model)
        self.model: PlayerModel = model
        super().__init__(
            length=model.length, t=t, fps=fps, speed=speed, loop=loop,
            _head=head, _columns=columns, _pictures=pictures, _label=f"RolloutPlayer: {player_headline(model)}",
        )  # fmt: skip

    @classmethod
    def compare(cls, a: Any, b: Any, env: Any = None, **options: Any) -> RolloutPlayer:
        """Show two rollouts side by side under one playhead, with the first step at which they part.

        Args:
            a: First rollout.
            b: Second rollout.
            env: As for `RolloutPlayer`.
            **options: As for `RolloutPlayer`.
        """
        return cls(a, env, compare=b, **options)

    @traitlets.validate("selected_env")
    def _in_range(self, proposal: traitlets.Bunch) -> int:
        return int(min(max(proposal["value"], 0), len(self.model.labels) - 1))

    def _text(self) -> str:
        return player_text(self.model, "RolloutPlayer", self.t, self.selected_env)

    def _svg(self) -> Svg:
        return player_svg(self.model, self._label, self.t, self.selected_env)

    def _explain(self) -> str:
        return player_explanation(self.model)
