"""The live TED explorer: a widget over TensorDicts in the TED format."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import traitlets

from rlnb.data.ted.keys import as_keys
from rlnb_widgets._core.display_svg import stacked
from rlnb_widgets._core.esm import TREE_CSS, bundle_css, bundle_js
from rlnb_widgets._core.packing import AS_JSON
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.ted_explorer.carrying import Fate, fates_at
from rlnb_widgets.ted_explorer.episodes import facts_of
from rlnb_widgets.ted_explorer.explain import ted_words
from rlnb_widgets.ted_explorer.forms import Form, forms_of
from rlnb_widgets.ted_explorer.layouts import layouts_of, runs_of
from rlnb_widgets.ted_explorer.model import next_of, ted_model
from rlnb_widgets.ted_explorer.payload import ted_payload
from rlnb_widgets.ted_explorer.scene import entries_parts, forms_parts, rules_parts, steps_display
from rlnb_widgets.ted_explorer.schema import TedModel
from rlnb_widgets.ted_explorer.text import ted_headline, ted_text
from rlnb_widgets.ted_explorer.values import BUDGET, pack_values
from rlnb_widgets.ted_explorer.views import VIEWS, forms_text, rules_text, steps_text

_HERE = Path(__file__).parent


class TEDExplorer(TimeTraits, Visualizer):
    """Shows TED data: every entry, what ``step_mdp`` does with it, and whether the data follow the rules of TED.

    Args:
        td: a TensorDict ``[*B, T]``, with time last, such as a rollout, a collector batch or a sample. Without
            ``"next"`` it is shown in one column, and so is a SavedTensorDict, without loading it.
        spec: a ``Composite`` (such as ``env.observation_spec`` or ``env.specs``) or an env to check the data against.
        other: a second TensorDict; differences are marked, and tensors that are in the same memory.
        t: first position of the playhead.
        element: the batch element whose values are shown, as a flat index.
        action_keys: keys of actions: a name (in any group) or a path each. Default: those of ``spec`` if it is an env.
        reward_keys: keys of rewards, likewise.
        budget: the most bytes of values that are sent to the page; entries beyond that show only their statistics.
        view: the first view, and the view of text and SVG: ``"entries"``, ``"rules"`` (each rule of TED, and where it
            is broken), ``"forms"`` (the same data flat, nested and as Gymnasium's tuples, with the bytes of each) or
            ``"steps"`` (what ``step_mdp`` does from step ``t`` to the next one).

    Attributes:
        model: the plain :class:`~rlnb_widgets.ted_explorer.TedModel`.
        t: the step at the playhead; :func:`rlnb_widgets.link` links it to other visualizers.
        element: the batch element.
        view: the view.
        selected: the path of the selected row, as a list of keys.

    Raises:
        TypeError: If ``td`` or ``other`` is not a TensorDict, or an argument is unknown.
        ValueError: If ``element`` is outside of the batch, or there is no such ``view``.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> x = torch.arange(4.0)
        >>> TEDExplorer(TensorDict({"x": x[:3], "next": {"x": x[1:], "reward": torch.ones(3, 1)}}, [3]))
        TEDExplorer(T=3, 3 leaves, 36 B, 0 episode ends)
        key     root[t]        min / mean / max  step_mdp        next[t]            min / mean / max
        ------  -------------  ----------------  --------------  -----------------  ----------------
        x       float32 [T=3]  0 / 1 / 2         carried, equal  float32 [T=3]      1 / 2 / 3
        reward  -                                dropped         float32 [T=3 | 1]  1 / 1 / 1
        There is no done flag in "next", so all steps are taken for one episode.
        next done: rule 'end signals': no end signal under 'next': the end signals were left out, or are only at the root
        root action: rule 'action': missing: the action was left out when the data was assembled
        TED rules: 10 of 12 kept; broken: end signals, action
    """  # noqa: E501 - the example shows what is printed

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(TREE_CSS, _HERE / "live.css")
    payload = traitlets.Unicode().tag(**AS_JSON)
    values = traitlets.Bytes().tag(sync=True)
    element = traitlets.Int(0).tag(sync=True)
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    view = traitlets.Unicode("entries").tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

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
        view: str = "entries",
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        keys = {"action_keys": _keys(action_keys, spec, "action"), "reward_keys": _keys(reward_keys, spec, "reward")}
        self.model: TedModel = ted_model(td, spec, other, **keys)
        self._elements = math.prod(self.model.batch) if self.model.steps is not None else 1
        self._td, self._next = td, next_of(td) if self.model.is_ted else None
        timed = self.model.is_ted and bool(self.model.steps)
        self._forms = self.forms() if timed else ()
        first = facts_of(td, self._next).stops[: self.model.steps] if timed and self._elements else None
        self._layouts = {} if first is None else layouts_of(runs_of(first))
        values, refs = pack_values(td, self._next, budget)
        super().__init__(
            payload=ted_payload(self.model, refs, self._forms, self._layouts),
            values=values,
            length=1 if self.model.steps is None else self.model.steps,
            t=t,
            element=element,
            view=view,
            _label=f"TEDExplorer: {ted_headline(self.model)}",
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

    @traitlets.validate("view")
    def _known(self, proposal: traitlets.Bunch) -> str:
        view = str(proposal["value"])
        if view not in VIEWS:
            raise ValueError(f"there is no view {view!r}; the views are {', '.join(map(repr, VIEWS))}.")
        return view

    def forms(self, exact: bool = False) -> tuple[Form, ...]:
        """Measure the data as TED, flat, nested and as Gymnasium's tuples.

        Args:
            exact: whether to build each form and count its bytes, which takes time and memory on large data. False: the
                bytes are computed from shapes and end signals.

        Returns:
            The forms, see :class:`~rlnb_widgets.ted_explorer.Form`.
        """
        broken = tuple(verdict.rule for verdict in self.model.verdicts if not verdict.kept)
        return forms_of(self._td, self.model.nbytes, broken, exact)

    def _fates(self) -> tuple[Fate, ...]:
        if not self.model.is_ted or not self.model.steps:
            return ()
        return fates_at(self._td, self._next, self.model, self.element, self.t)

    def _text(self) -> str:
        head = f"TEDExplorer({ted_headline(self.model)})\n"
        if self.view == "rules":
            return head + rules_text(self.model.verdicts)
        if self.view == "forms":
            return head + forms_text(self._forms, self._layouts)
        if self.view == "steps":
            return head + steps_text(self._fates(), self.t, self.model.steps if self.model.is_ted else None)
        return ted_text(self.model)

    def _explain(self) -> str:
        return ted_words(self.model)

    def _svg(self) -> Svg:
        model = self.model
        if self.view == "rules":
            what, parts = ", rules", rules_parts(model.verdicts)
        elif self.view == "forms":
            what, parts = ", forms", forms_parts(self._forms, self._layouts)
        elif self.view == "steps" and model.is_ted and model.steps:
            what, parts = f", step {self.t}", [steps_display(self._fates(), self.t, model.steps)]
        else:
            what, parts = "", entries_parts(model)
        return stacked(f"TEDExplorer{what}: {ted_headline(model)}", self._explain(), parts, {})


def _keys(given: Any, spec: Any, name: str) -> tuple[Any, ...]:
    """Return the given keys, else those of the env, else the usual one."""
    if given is not None:
        return (given,) if isinstance(given, (str, tuple)) else tuple(given)
    known = getattr(spec, f"{name}_keys", None)
    # The keys of an env are exact paths; the usual name matches in every group of agents.
    return tuple(as_keys(known)) if isinstance(known, list) and known else (name,)
