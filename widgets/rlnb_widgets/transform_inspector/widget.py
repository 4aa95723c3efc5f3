"""The live transform inspector: a widget over the transforms of an env."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import traitlets
from tensordict import TensorDictBase

from rlnb.envs.base import EnvBase
from rlnb.envs.transforms.transformed_env import TransformedEnv
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.packing import AS_JSON
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.transform_inspector.model import assert_inspectable, inspector_model, with_moment
from rlnb_widgets.transform_inspector.payload import inspector_payload
from rlnb_widgets.transform_inspector.scene import inspector_svg
from rlnb_widgets.transform_inspector.schema import InspectorModel, Moment, What
from rlnb_widgets.transform_inspector.session import CannotCopy, Session
from rlnb_widgets.transform_inspector.text import inspector_headline, inspector_text, inspector_words

_HERE = Path(__file__).parent
_KINDS = ("reset", "step")


class TransformInspector(Visualizer):
    """Shows the transforms of an env: their keys, the specs before and after each, and a step on its way through them.

    A copy of the env is run, so the env, its random generator and the global ones do not change.

    Args:
        env: a :class:`~rlnb.envs.TransformedEnv`, or a function that makes one, for an env that cannot be copied.
        seed: seed of the copy. Only with a seed do the text and the SVG show values.
        steps: number of random steps after the reset. The last 24 are kept.

    Attributes:
        model: the plain :class:`~rlnb_widgets.transform_inspector.InspectorModel`.
        box: the selected box, from 0; -1 for the base env. In the page the arrow keys move it.
        moment: the selected reset or step, as an index into ``model.moments``.

    Raises:
        TypeError: If ``env`` is neither a TransformedEnv nor a function that returns one, or an argument is unknown or
            not an integer.
        ValueError: If ``seed`` or ``steps`` is negative.

    Example:
        >>> from rlnb.envs import CartPoleEnv, Compose, RewardSum, StepCounter
        >>> env = TransformedEnv(CartPoleEnv(), Compose(StepCounter(), RewardSum()))
        >>> inspector = TransformInspector(env, seed=0)
        >>> [value.text for value in inspector.run("step").forward[2] if value.key == '"episode_reward"']
        ['2']
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")
    payload = traitlets.Unicode().tag(**AS_JSON)
    box = traitlets.Int(-1).tag(sync=True)
    moment = traitlets.Int(0).tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        env: TransformedEnv | Callable[[], TransformedEnv],
        *,
        seed: int | None = None,
        steps: int = 1,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        _assert_count("steps", steps)
        if seed is not None:
            _assert_count("seed", seed)
        assert_inspectable(env)
        made = not isinstance(env, EnvBase)
        env = env() if made else env
        self.model: InspectorModel = inspector_model(env, seed)  # type: ignore[arg-type]
        self._session: Session | None = None
        try:
            self._session = Session(env, seed, owned=made)  # type: ignore[arg-type]
        except CannotCopy as error:
            self.model = _noted(self.model, str(error))
        super().__init__(payload="", box=0 if self.model.boxes else -1)
        whats: list[What] = ["reset", *["step" for _ in range(steps)]]  # type: ignore[list-item]
        for what in whats if self._session else ():
            if self.run(what).error:
                break
        self._label = inspector_headline(self.model)
        self._pack()
        self.on_msg(self._on_message)

    def run(self, what: What, tensordict: TensorDictBase | None = None) -> Moment:
        """Reset or step the copy of the env once more, and show it.

        After the end of an episode a step is preceded by a reset, which is recorded separately.

        Args:
            what: ``"reset"`` or ``"step"``.
            tensordict: argument of the reset or step, with its action. Default: the data of the step before, with a
                random action.

        Returns:
            The data that passed between the boxes; it includes the error of a box that failed.

        Raises:
            ValueError: If ``what`` is neither.
            TypeError: If ``tensordict`` is not a TensorDict.
            RuntimeError: If the env could not be copied.
        """
        if what not in _KINDS:
            raise ValueError(f'what must be "reset" or "step", got {what!r}.')
        if tensordict is not None and not isinstance(tensordict, TensorDictBase):
            raise TypeError(
                f"tensordict must be a TensorDict or None, got a {type(tensordict).__name__}. Fix: "
                'inspector.run("step", env.rand_action(env.reset())), or leave it out.'
            )
        if self._session is None:
            raise CannotCopy(self.model.note)
        moments = self._session.run(what, tensordict)
        for moment in moments:
            self.model = with_moment(self.model, moment)
        self._pack()
        self.moment = len(self.model.moments) - 1
        return moments[-1]

    def _pack(self) -> None:
        self.payload = inspector_payload(self.model)

    @traitlets.validate("box")
    def _box_in_range(self, proposal: Any) -> int:
        return min(max(int(proposal["value"]), -1), len(self.model.boxes) - 1)

    @traitlets.validate("moment")
    def _moment_in_range(self, proposal: Any) -> int:
        return min(max(int(proposal["value"]), 0), max(len(self.model.moments) - 1, 0))

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        what = content.get("do") if isinstance(content, dict) else None
        if what in _KINDS and self._session is not None:
            self.run(what)

    def _text(self) -> str:
        return inspector_text(self.model)

    def _svg(self) -> Svg:
        return inspector_svg(self.model, self.box, self._explain())

    def _explain(self) -> str:
        return inspector_words(self.model)


def _assert_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, 0 or more, got {value!r}.")
    if value < 0:
        raise ValueError(f"{name} must be 0 or more, got {value}.")


def _noted(model: InspectorModel, note: str) -> InspectorModel:
    return InspectorModel(model.env, model.about, model.boxes, model.given, model.taken, (), model.seed, note)
