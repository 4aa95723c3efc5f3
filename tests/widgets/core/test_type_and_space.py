"""Sizes of text and distances of all visualizers: few values, the same in style sheets, display lists and SVG."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rlnb_widgets

WIDGETS = Path(rlnb_widgets.__file__).parent
#: Text, tables and legends, text in pictures, scales and labels, and the number or sign that a picture is about.
SIZES = {13, 12, 11, 10, 18}
WEIGHTS = {"400", "600"}
#: Margins, padding and gaps.
SPACES = {0, 1, 2, 4, 6, 8, 12, 16, 20, 24}
# Scenes are drawn in units of their own, and scaled.
FOLDERS = sorted({path.parent.name for path in WIDGETS.rglob("*.py")} - {"scenes"})

_DECLARATION = re.compile(r"(?<=[{;])\s*((?:font|margin|padding|gap|row-gap|column-gap)[a-z-]*)\s*:\s*([^;}]+)")
_NUMBER = re.compile(r"(?<![\w-])-?([\d.]+)([a-z%]*)")


def in_css(text: str) -> Iterator[str]:
    """The declarations of a style sheet that are off the scale."""
    for name, value in _DECLARATION.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)):
        numbers = [(float(number), unit) for number, unit in _NUMBER.findall(re.sub(r"var\(--[\w-]+", "", value))]
        if name == "font-weight":
            fits = value.strip() in WEIGHTS
        elif name in ("font", "font-size"):  # the height of a line has no unit
            fits = all(not unit or (unit == "px" and size in SIZES) for size, unit in numbers)
        elif name.startswith("font"):
            fits = True
        else:
            fits = all(size == 0 or (unit == "px" and size in SPACES) for size, unit in numbers)
        if not fits:
            yield f"{name}: {value.strip()}"


def in_python(text: str) -> Iterator[str]:
    """The calls that draw text in a size off the scale, which is a number or a constant of the module."""
    module = ast.parse(text)
    constants: dict[str, ast.expr] = {}
    for node in module.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                names, values = (target.elts, node.value.elts) if pairs else ([target], [node.value])
                constants |= {ast.unparse(name): value for name, value in zip(names, values, strict=True)}
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in ("text", "labels"):
            continue
        for size in (keyword.value for keyword in node.keywords if keyword.arg == "size"):
            value = constants.get(size.id, size) if isinstance(size, ast.Name) else size
            if isinstance(value, ast.Constant) and value.value not in SIZES:
                yield f"line {node.lineno}: size={value.value}"


def in_js(text: str) -> Iterator[str]:
    """The fonts of canvases that are off the scale."""
    for size in re.findall(r"\.font = [\"'`][^\"'`$]*?([\d.]+)px", text):
        if float(size) not in SIZES:
            yield f"font of {size}px"


READERS = {".css": in_css, ".py": in_python, ".js": in_js}


@pytest.mark.parametrize("folder", FOLDERS)
def test_sizes_and_distances_are_on_the_scale(folder: str) -> None:
    files = (WIDGETS if folder == WIDGETS.name else WIDGETS / folder).iterdir()
    found = {path.name: [*READERS[path.suffix](path.read_text())] for path in sorted(files) if path.suffix in READERS}
    assert {name: off for name, off in found.items() if off} == {}


@pytest.mark.parametrize(
    ("css", "off"),
    [
        ("a { font-size: 12px; margin: 0 auto -1px 4px; gap: 2px 12px; font: 600 13px/1.45 x; font-family: f9; }", []),
        ("a { font-size: 11.5px; padding: 3px 8px !important }", ["font-size: 11.5px", "padding: 3px 8px !important"]),
        ("a { font: 15px/1 x; font-weight: 700; }", ["font: 15px/1 x", "font-weight: 700"]),
        ("a { margin-left: 1em; row-gap: 5px; }", ["margin-left: 1em", "row-gap: 5px"]),
        ("a{padding:calc(var(--c0, 3) * 12px)}", ["padding: calc(var(--c0, 3) * 12px)"]),
        ("a { padding: calc(var(--c0) * 14px); /* margin: 3px; */ }", ["padding: calc(var(--c0) * 14px)"]),
        ("a { font-size: 0.9em; } b { font-size: 90% }", ["font-size: 0.9em", "font-size: 90%"]),
        ("a { height: 15px; max-width: 3px; --gap: 3px; scroll-margin: 3px; }", []),
    ],
)
def test_the_reader_of_style_sheets_finds_what_is_off_the_scale(css: str, off: list[str]) -> None:
    assert [*in_css(css)] == off


def test_the_readers_of_programs_find_what_is_off_the_scale() -> None:
    python = (
        "S, T = 10.5, 3\nd.text(0, 0, 'a', size=S)\nd.labels([], size=12)\nd.text(0, 0, 'b', size=9)\nd.glyph(size=8)"
    )
    assert [*in_python(python)] == ["line 2: size=10.5", "line 4: size=9"]
    assert [*in_js('pen.font = "12px x"; pen.font = "14px x"; pen.font = `600 ${size}px x`;')] == ["font of 14px"]
