"""The live spec explorer: a widget over one spec or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import traitlets

from rlnb_widgets._core.esm import TREE_CSS, bundle_css, bundle_js
from rlnb_widgets._core.packing import AS_JSON
from rlnb_widgets._core.spec_entries import Path as Keys
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.spec_explorer.answer import Answer, ask
from rlnb_widgets.spec_explorer.explain import spec_words
from rlnb_widgets.spec_explorer.model import spec_model, specs_of
from rlnb_widgets.spec_explorer.payload import samples_json, spec_payload
from rlnb_widgets.spec_explorer.picks import picks_of
from rlnb_widgets.spec_explorer.questions import reply_to
from rlnb_widgets.spec_explorer.samples import DRAWS, Samples, draw_samples
from rlnb_widgets.spec_explorer.scene import spec_svg
from rlnb_widgets.spec_explorer.schema import SpecModel
from rlnb_widgets.spec_explorer.text import spec_headline, spec_text

_HERE = Path(__file__).parent
FEW = 12  # a spec with more keys opens with nothing selected


class SpecExplorer(Visualizer):
    """Shows a spec: every entry, the values it allows, samples of it, and tests of your own values.

    Args:
        spec: a spec (a leaf or a nested ``Composite``), or an env, whose ``specs`` are shown.
        other: a second spec or env; differences are marked.
        seed: the seed of the samples.

    Attributes:
        model: the plain :class:`~rlnb_widgets.spec_explorer.SpecModel`.
        seed: the seed; setting it draws new samples.
        selected: the path of the selected row, as a list of keys; empty for the spec itself. At first it is the first
            leaf with a picture, unless the spec has many keys.

    Raises:
        TypeError: If ``spec`` or ``other`` is neither a spec nor an env, or an argument is unknown.

    Example:
        >>> from rlnb.data import Bounded, Composite, OneHot
        >>> explorer = SpecExplorer(Composite(observation=Bounded(-1, 1, shape=(2,)), action=OneHot(3)))
        >>> explorer
        SpecExplorer(Composite, 2 leaves, cpu)
        key            class              dtype    shape  domain        gymnasium space
        -------------  -----------------  -------  -----  ------------  -----------------------------
        spec           Composite          -        -      2 keys        Dict
          observation  BoundedContinuous  float32  [2]    [-1, 1]       Box(-1.0, 1.0, (2,), float32)
          action       OneHot             bool     [3]    one-hot of 3  Discrete(3)
        >>> explorer.try_value("action", [0, 1, 0]).is_in
        True
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(TREE_CSS, _HERE / "live.css")
    payload = traitlets.Unicode().tag(**AS_JSON)
    samples = traitlets.Unicode().tag(sync=True)
    seed = traitlets.Int(0, min=0, max=2**31 - 1).tag(sync=True)
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(self, spec: Any, other: Any = None, *, seed: int = 0, **unknown: Any) -> None:
        self._refuse_unknown(unknown)
        self.model: SpecModel = spec_model(spec, other)
        self._specs = specs_of(spec)
        self._samples: dict[Keys, Samples] = {}
        picks = {row.path: picks_of(row) for row in self.model.rows}
        super().__init__(
            payload=spec_payload(self.model, picks),
            seed=seed,
            selected=list(_first_shown(self.model)),
            _label=f"SpecExplorer: {spec_headline(self.model)}",
        )
        self.observe(self._draw, "seed")
        self._draw()
        self.on_msg(self._on_message)

    def _draw(self, _change: Any = None) -> None:
        rows = [row for row in self.model.rows if row.leaf and row.here]
        self._samples = {
            row.path: draw_samples(self._specs[row.path], row.cell.domain, self.seed, DRAWS) for row in rows
        }
        self.samples = samples_json(self.model, self._samples)

    def try_value(self, key: Any, value: Any) -> Answer:
        """Test a value against an entry of the spec.

        Args:
            key: a name, a tuple of names (and of indices into a stack), or ``()`` for the spec itself.
            value: a number, list, tensor or array; a dictionary for a Composite; any data for a NonTensor.

        Returns:
            The results of ``is_in``, ``project``, ``encode`` and ``to_numpy``, with reasons; errors are included as
            text.

        Raises:
            KeyError: If there is no such entry.

        Example:
            >>> from rlnb.data import Categorical
            >>> SpecExplorer(Categorical(3)).try_value((), 3).reasons[0].partition(".")[0]
            'value: 3 is outside {0, 1, 2}'
        """
        keys = (key,) if isinstance(key, (str, int)) else tuple(key)
        path = tuple(f"[{part}]" if isinstance(part, int) else part for part in keys)
        if path not in self._specs:
            self.model.row(*path)  # raises, unless it is in the other spec
            raise KeyError(f"{path!r} is only in the other spec.")
        return ask(self._specs[path], path, value)

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        reply = reply_to(content, self._specs, self.model, self.seed)
        if reply is not None:
            self.send(reply)

    def _text(self) -> str:
        return spec_text(self.model)

    def _explain(self) -> str:
        return spec_words(self.model)

    def _svg(self) -> Svg:
        return spec_svg(self.model, self._samples, self.seed)


def _first_shown(model: SpecModel) -> Keys:
    """Return the path that is selected at first: the first leaf with a picture, so that a domain is visible."""
    if sum(len(row.path) == 1 for row in model.rows) > FEW:
        return ()
    pictured = (row.path for row in model.rows if row.leaf and row.here and row.cell.domain.lanes)
    return next(pictured, ())
