"""The live player: a widget whose frames, strips and playhead live in the page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import traitlets

from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.rollout_player.model import PlayerModel, player_model
from rlnb_widgets.rollout_player.payload import payload
from rlnb_widgets.rollout_player.static import player_svg
from rlnb_widgets.rollout_player.text import explanation, headline, player_text

__all__ = ["RolloutPlayer"]

_HERE = Path(__file__).parent


class RolloutPlayer(TimeTraits, Visualizer):
    r"""Plays a rollout: frames above synchronized strips, and the TED row under the playhead.

    Everything is in the page once it is shown: moving the playhead never asks Python. Keys: space plays, the arrows
    move by a step, Page Up and Page Down by ten, Home and End to the ends, ``n`` and ``p`` to the next and previous
    mark, ``+``, ``-`` and ``0`` zoom, ``[`` and ``]`` limit what is played, ``\`` lifts the limit.

    Episodes end where a flag in ``"next"`` says so, where a mask says that padding begins, and where another trajectory
    begins. The data says where: by a new number in ``("collector", "traj_ids")``, ``"traj_ids"`` or ``"episode"``, else
    by ``"is_init"`` or a ``"step_count"`` that falls. Without any of these, rows that do not continue the row
    before them are taken for the seams of a flattened batch ``[B, T]`` if they lie at the ends of equal shares of the
    data, and for another trajectory if root and ``"next"`` alike jump farther than any step of the data leads. Any
    other row whose root is not the ``"next"`` of the row before ends no episode; a note tells how many there are. NaN
    on one side only is no difference.

    Args:
        rollout: TensorDict of batch size ``[T]`` or ``[*B, T]`` in TED format; what it lacks is said and left out.
        env: The environment, or its id, to draw the state of; it is only looked at and never run again.
        frames: Pictures, one a step, ``[T, H, W, C]`` or ``[B, T, H, W, C]``; one more at the end may show where the
            last step led. Without it ``"pixels"`` of the rollout are shown if there, else the env's drawing.
        fps: Steps a second at speed 1.
        strips: What is drawn below reward and return: keys, or keys with the number of a component last, such as
            ``("observation", 2)``; one of these alone, or a list of them. None chooses.
        envs: Which environments of a batch to show, as a flat index or several; None shows the first 16.
        compare: A second rollout, shown beside the first one, with the first step at which they part.
        max_bytes: Most bytes of encoded pictures; more are thinned, with a note.
        t: Step at which the playhead stands first.
        speed: Factor on `fps`.
        loop: Whether playing starts over at the end.

    Attributes:
        model: The plain values shown, a `PlayerModel`.
        selected_env: Which of the environments shown the strips and the row follow.

    Raises:
        TypeError: If the rollout is not a TensorDict, `env` no environment, or an argument unknown.
        ValueError: If the rollout is empty or has no time, or `frames` do not fit.
        KeyError: If `strips` names a key that is not there.
        IndexError: If `envs` or `strips` name an environment or component that is not there.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([[False], [True], [False]])
        >>> td = TensorDict({"next": {"reward": torch.ones(3, 1), "done": done, "terminated": done}}, [3])
        >>> print(repr(RolloutPlayer(td)).splitlines()[0])
        RolloutPlayer: 3 steps, 1 environment, 2 episodes
    """

    _esm = bundle_js(_HERE / "player.js")
    _css = bundle_css(_HERE / "player.css")

    selected_env = traitlets.Int(0).tag(sync=True)
    _head = traitlets.Dict().tag(sync=True)
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
        max_bytes: int = 8_000_000,
        t: int = 0,
        speed: float = 1.0,
        loop: bool = False,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        model = player_model(
            rollout, env, frames=frames, strips=strips, envs=envs, compare=compare, max_bytes=max_bytes
        )
        head, columns, pictures = payload(model)
        self.model: PlayerModel = model
        super().__init__(
            length=model.length, t=t, fps=fps, speed=speed, loop=loop,
            _head=head, _columns=columns, _pictures=pictures, _label=f"RolloutPlayer: {headline(model)}",
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
        return player_svg(self.model, "RolloutPlayer", self.t, self.selected_env)

    def _explain(self) -> str:
        return explanation(self.model)
