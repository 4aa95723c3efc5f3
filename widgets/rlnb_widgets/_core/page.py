"""Self-contained HTML pages of widgets: module, style, traits and a model that needs no kernel."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from rlnb._text import printable

_SHIM = Path(__file__).parent / "shim.js"
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_PAGE_CSS = """
body { margin: 16px; background: #ffffff; font-family: system-ui, sans-serif; }
noscript img { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #161a1f; } }
"""


def page(title: str, esm: str, css: str, state: dict[str, Any], static: str) -> str:
    r"""Return the page of a widget: its module ends in ``export default``, and ``static`` is shown without scripts.

    Raises:
        ValueError: If the module has no default export.

    Example:
        >>> text = page("T", "export default () => ({});", "", {"key": "</script>"}, "")
        >>> "\\u003c/script>" in text
        True
    """
    body, found, last = esm.rpartition("export default ")
    if not found:
        raise ValueError("the module must end in `export default ...;`.")
    module = f"{body}const __widget = {last.rstrip().rstrip(';')};\n{_SHIM.read_text(encoding='utf-8')}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(printable(title))}</title>\n<style>{_PAGE_CSS}{_inline(css)}</style>\n</head>\n<body>\n"
        f'<div id="rlnb-root"></div>\n<noscript>{static}</noscript>\n'
        f'<script type="application/json" id="rlnb-state">{_json(state)}</script>\n'
        f'<script type="module">\n{_inline(module)}\n</script>\n</body>\n</html>\n'
    )


def _inline(text: str) -> str:
    # The only texts that could end the element early.
    return text.replace("</script", "<\\/script").replace("</style", "<\\/style").replace("<!--", "<\\!--")


def _json(state: dict[str, Any]) -> str:
    def encode(value: Any) -> Any:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"__bytes__": base64.b64encode(bytes(value)).decode()}
        raise TypeError(f"a trait of type {type(value).__name__} cannot be written into a page.")

    return json.dumps(state, default=encode, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
