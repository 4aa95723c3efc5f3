"""The TED explorer: one model as text, as a picture and live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import traitlets

from rlnb.data.ted.keys import as_keys
from rlnb_widgets._core import TREE_CSS, Svg, TimeTraits, Visualizer, bundle_css, bundle_js
from rlnb_widgets.ted_explorer.explain import ted_words
from rlnb_widgets.ted_explorer.model import next_of, ted_model
from rlnb_widgets.ted_explorer.payload import payload
from rlnb_widgets.ted_explorer.schema import TedModel
from rlnb_widgets.ted_explorer.static import ted_svg
from rlnb_widgets.ted_explorer.text import headline, ted_text
from rlnb_widgets.ted_explorer.values import BUDGET, pack_values

_HERE = Path(__file__).parent


class TEDExplorer(TimeTraits, Visualizer):
    """Look into episode data: every entry, what ``step_mdp`` does with it, and whether the data keep to the rules.

    Args:
        td: a TensorDict of batch size ``[*B, T]``, time last, such as a rollout, a collector batch or a sample. Without
            ``"next"`` it is shown in one column.
        spec: a ``Composite`` (such as ``env.observation_spec`` or ``env.specs``) or an environment to hold it against.
        other: another TensorDict; what differs is marked.
        t: the step under the playhead at first.
        element: which batch element the values are of, as a flat index.
        action_keys: what actions are called, a name (in any group) or a path each; taken from ``spec`` if that is an
            environment.
        reward_keys: the same for rewards.
        budget: most bytes of values that are sent to the page; what does not fit shows its statistics only.

    Attributes:
        model: the plain :class:`~rlnb_widgets.ted_explorer.TedModel`.
        t: the step under the playhead; :func:`rlnb_widgets.link` ties it to other visualizers.
        element: the batch element.
        selected: the path of the selected row, as a list of keys.

    Raises:
        TypeError: if ``td`` or ``other`` is no TensorDict, or an argument is unknown.
        ValueError: if ``element`` is outside the batch.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> x = torch.arange(4.0)
        >>> TEDExplorer(TensorDict({"x": x[:3], "next": {"x": x[1:], "reward": torch.ones(3, 1)}}, [3]))
        TEDExplorer(T=3, 3 leaves, 36 B, 0 episode ends)
        key     root[t]        min / mean / max  step_mdp  next[t]            min / mean / max
        ------  -------------  ----------------  --------  -----------------  ----------------
        x       float32 [T=3]  0 / 1 / 2         <- ok     float32 [T=3]      1 / 2 / 3
        reward  -                                dropped   float32 [T=3 | 1]  1 / 1 / 1
        There is no done flag in "next", so all steps are taken for one episode.
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(TREE_CSS, _HERE / "live.css")
    payload = traitlets.Unicode().tag(sync=True)
    values = traitlets.Bytes().tag(sync=True)
    element = traitlets.Int(0).tag(sync=True)
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        td: Any,
        spec: Any = None,
        other: Any = None,
        *,
        t: int = 0,
        element: int = 0,
        action_keys: Any = None,
        reward_keys: Any = None,
        budget: int = BUDGET,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        keys = {
            "action_keys": _keys(action_keys, spec, "action"),
            "reward_keys": _keys(reward_keys, spec, "reward"),
        }
        self.model: TedModel = ted_model(td, spec, other, **keys)
        self._elements = _product(self.model.batch) if self.model.steps is not None else 1
        values, refs = pack_values(td, next_of(td), budget)
        super().__init__(
            payload=payload(self.model, refs),
            values=values,
            length=1 if self.model.steps is None else self.model.steps,
            t=t,
            element=element,
        )

    @traitlets.validate("element")
    def _in_batch(self, proposal: traitlets.Bunch) -> int:
        value = int(proposal["value"])
        if not 0 <= value < max(self._elements, 1):
            raise ValueError(
                f"element must be in 0..{max(self._elements - 1, 0)}, a flat index into batch "
                f"{list(self.model.batch)}; got {value}."
            )
        return value

    def _text(self) -> str:
        return ted_text(self.model)

    def _explain(self) -> str:
        return ted_words(self.model)

    def _svg(self) -> Svg:
        return ted_svg(self.model)

    def _alt(self) -> str:
        return f"TEDExplorer({headline(self.model)})"


def _keys(given: Any, spec: Any, name: str) -> tuple[Any, ...]:
    """The names to go by: what the caller says, else what the environment says, else the usual one."""
    if given is not None:
        return (given,) if isinstance(given, (str, tuple)) else tuple(given)
    known = getattr(spec, f"{name}_keys", None)
    # an environment's keys are exact, the usual name is looked for in every group of agents
    return tuple(as_keys(known)) if isinstance(known, list) and known else (name,)


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
