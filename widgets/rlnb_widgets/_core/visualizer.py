"""Base class of all visualizers: one model, shown as text, as a static SVG and as a live widget."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from rlnb._text import printable
from rlnb_widgets._core.page import page
from rlnb_widgets._core.svg import Svg, image_tag

# Traits that anywidget adds to each widget; the page already holds module and style.
_FRAMEWORK = frozenset({"_anywidget_id", "_css", "_esm"})


class Visualizer(anywidget.AnyWidget):
    """Base class of all visualizers.

    A subclass sets ``_esm = bundle_js(...)`` and ``_css = bundle_css(...)``, builds its model in ``__init__``, and
    implements `_text`, `_svg` and `_explain`.
    """

    #: Whether the static view shows measured times.
    _measured = False
    _links: traitlets.List[list[str]] = traitlets.List().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        unknown = [name for name in traits if not self.has_trait(name)]
        if unknown:
            # A mistake of the subclass, not of its user. traitlets would ignore it.
            raise TypeError(f"{type(self).__name__} has no trait {', '.join(map(repr, unknown))}.")
        super().__init__(**traits)

    def _text(self) -> str:
        """Return the text view: deterministic, without addresses, ids or times."""
        raise NotImplementedError(f"{type(self).__name__} must define _text().")

    def _svg(self) -> Svg:
        """Return the static view."""
        raise NotImplementedError(f"{type(self).__name__} must define _svg().")

    def _explain(self) -> str:
        """Return a description in words."""
        raise NotImplementedError(f"{type(self).__name__} must define _explain().")

    def _update_page(self) -> None:
        """Bring the traits that the page shows up to date; it is called before they are shown or written."""

    def __repr__(self) -> str:
        """Return the text view, with control characters from the data escaped."""
        return printable(self._text())

    __str__ = __repr__

    def explain(self) -> str:
        """Return a description in plain words, for beginners and screen readers."""
        return printable(self._explain())

    def to_svg(self, path: str | Path | None = None) -> str:
        """Return the static view as SVG text, readable in light and dark.

        Args:
            path: File to write it to. None: only return it.

        Returns:
            The SVG.
        """
        return _written(str(self._svg()), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained HTML page with the live visualizer, which needs no kernel and no network.

        Args:
            path: File to write it to. None: only return it.

        Returns:
            The page.
        """
        self._update_page()
        inherited = anywidget.AnyWidget.class_trait_names()
        state = self.get_state(sorted(set(self.traits(sync=True)) - _FRAMEWORK - set(inherited)))
        # A page holds one visualizer, so there is nothing to link it with.
        state["_links"] = []
        static = image_tag(str(self._svg()), self._alt())
        text = page(title=type(self).__name__, esm=str(self._esm), css=str(self._css), state=state, static=static)
        return _written(text, path)

    def get_state(self, *args: Any, **kwargs: Any) -> Any:
        """Return the traits for the browser, with lone surrogates escaped, since messages are UTF-8."""
        return _encodable(super().get_state(*args, **kwargs))

    def _alt(self) -> str:
        return repr(self).partition("\n")[0]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._update_page()
        bundle = super()._repr_mimebundle_(**kwargs)
        data, meta = bundle if isinstance(bundle, tuple) else (bundle, {})
        html = image_tag(str(self._svg()), self._alt(), self._measured)
        return {**(data or {}), "text/plain": repr(self), "text/html": html}, meta

    def _link_names(self, names: Sequence[str], others: Sequence[Visualizer]) -> dict[str, str]:
        """Return the trait that this visualizer shares in a link with others, for each shared name."""
        return {name: name for name in names if self.has_trait(name)}

    def _refuse_unknown(self, unknown: dict[str, Any]) -> None:
        """Raise ``TypeError`` for unknown keyword arguments, listing the legal ones."""
        if not unknown:
            return
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = inspect.signature(type(self).__init__).parameters
        legal = [n for n, p in parameters.items() if p.kind in kinds and n != "self"]
        name = type(self).__name__
        raise TypeError(f"{name} has no argument {', '.join(map(repr, unknown))}; it takes {', '.join(legal)}.")


def _encodable(value: Any) -> Any:
    """Return nested lists and dicts with text that UTF-8 can encode."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return printable(value)
        return value
    if isinstance(value, dict):
        return {_encodable(key): _encodable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_encodable, value)) if type(value) in (list, tuple) else value
    return value


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
