"""Bundler that joins ES modules into the single module string of a widget, without a network.

Each module becomes a function that is called once and returns its exports, so two modules may use the same name. The
files stay plain ES modules, which Node loads as they are for unit tests.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rlnb_widgets._core.colors import css_variables

_IMPORT = re.compile(r"^import\s*\{([^}]*)\}\s*from\s*[\"']([^\"']+)[\"'];?[ \t]*$", re.MULTILINE)
_REEXPORT = re.compile(r"^export\s*\{([^}]*)\}\s*from\s*[\"']([^\"']+)[\"'];?[ \t]*$", re.MULTILINE)
_EXPORT = re.compile(r"^export\s+((?:async\s+)?function\*?|const|let|class)\s+([\w$]+)", re.MULTILINE)
_DEFAULT = re.compile(r"^export\s+default\s+", re.MULTILINE)
_LEFTOVER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
# Every widget carries its module, so what only people read stays in the files: lines of comments, and indentation.
_FOR_PEOPLE = re.compile(r"^[ \t]*(?:/\*(?:(?!\*/).)*\*/[ \t]*|//[^\n]*)\n|^[ \t]+", re.MULTILINE | re.DOTALL)
_LONG_TEXT = re.compile(r"^[^`\n]*(?:`[^`\n]*`[^`\n]*)*`[^`\n]*$", re.MULTILINE)
_CORE = Path(__file__).parent

#: The style of the shared tree and its details pane, for `bundle_css`.
TREE_CSS = _CORE / "tree.css"


def bundle_js(entry: str | Path) -> str:
    """Join a module and all it imports into one ES module.

    Supported: ``import { a, b as c } from "./x.js"``, ``export { a } from "./x.js"``,
    ``export function|const|let|class`` and one ``export default`` in the entry, each starting its line.
    Lines of comments, and indentation, are left out.

    Args:
        entry: Path of the module whose default export is the widget.

    Returns:
        The text of a module with no imports, ending in the entry's ``export default``.

    Raises:
        ValueError: If a module uses another form of import or export, imports itself in a circle, or the entry has no
            default export.

    Example:
        >>> text = bundle_js(_CORE / "timeline_widget.js")
        >>> "import " in text.split("//")[0], text.rstrip().splitlines()[-1].startswith("export default")
        (False, True)
    """
    return _bundle_js(Path(entry).resolve())


@cache
def _bundle_js(entry: Path) -> str:
    order: dict[Path, str] = {}
    _visit(entry, order, ())
    if "default" not in _exports(entry.read_text(encoding="utf-8")):
        raise ValueError(f"{entry.name} has no `export default`: a widget module must export its render function.")
    return "\n".join([*order.values(), f"export default {_name(list(order).index(entry))}.default;\n"])


def _name(index: int) -> str:
    return f"__m{index}"


def _visit(path: Path, order: dict[Path, str], above: tuple[Path, ...]) -> None:
    if path in order:
        return
    if path in above:
        raise ValueError(f"circular import: {' -> '.join(p.name for p in (*above, path))}")
    source = path.read_text(encoding="utf-8")
    for _, target in (*_IMPORT.findall(source), *_REEXPORT.findall(source)):
        _visit((path.parent / target).resolve(), order, (*above, path))
    order[path] = _wrap(path, source, list(order))


def _wrap(path: Path, source: str, earlier: list[Path]) -> str:
    def module(target: str) -> str:
        return _name(earlier.index((path.parent / target).resolve()))

    def bind(match: re.Match[str]) -> str:
        names = re.sub(r"\s+as\s+", ": ", " ".join(match[1].split()))
        return f"const {{ {names} }} = {module(match[2])};"

    names = _exports(source)
    body = _FOR_PEOPLE.sub("", source)
    if stray := _LONG_TEXT.search(body):
        raise ValueError(f"{path.name}: cannot join `{stray[0].strip()}`; end a template literal on its first line.")
    body = _REEXPORT.sub(bind, _IMPORT.sub(bind, body))
    body = _DEFAULT.sub("const __default = ", _EXPORT.sub(r"\1 \2", body))
    if stray := _LEFTOVER.search(body):
        raise ValueError(
            f'{path.name}: cannot join `{stray[0].strip()}`; write `import {{ a }} from "./x.js"`, '
            "`export function|const|let|class name` or `export default value`, at the start of a line."
        )
    returned = ", ".join("default: __default" if n == "default" else n for n in names)
    return f"// {path.name}\nconst {_name(len(earlier))} = (() => {{\n{body.strip()}\nreturn {{ {returned} }};\n}})();"


def _exports(source: str) -> list[str]:
    names = [m[1] for m in _EXPORT.findall(source)]
    for listed, _ in _REEXPORT.findall(source):
        names += [part.split(" as ")[-1].strip() for part in listed.split(",") if part.strip()]
    return names + (["default"] if _DEFAULT.search(source) else [])


@cache
def bundle_css(*paths: str | Path) -> str:
    """Join the colour variables, the shared style sheet and the style sheets of a visualizer.

    Example:
        >>> bundle_css().startswith(".rlnb {")
        True
    """
    return "\n".join([css_variables(), *(Path(p).read_text(encoding="utf-8") for p in (_CORE / "core.css", *paths))])
