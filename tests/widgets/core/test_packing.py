"""Packed display lists: what the page unpacks is what was packed."""

from __future__ import annotations

import json
import subprocess
import zlib

import numpy as np
from rlnb_widgets._core.display import Display, Param
from rlnb_widgets._core.packing import AS_JSON, packed

PROGRAM = """
import { unpacked } from "./widgets/rlnb_widgets/_core/paint.js";
let text = "";
for await (const part of process.stdin) text += part;
console.log(JSON.stringify(unpacked(JSON.parse(text))));
"""


def sample() -> Display:
    """A list with groups in groups, a parameter, marks of one look with equal and with other values, and 0 beside 1."""
    display = Display(40)
    for i in range(3):
        display.text(84, 12 + 12 * i, f"env {i}", fill="muted", size=10)
        with display.frame(0, 10, (0, Param("end"))), display.shown(Param(f"has{i}")):
            display.rect(0, Param("t", 1), 10 * i, 8, fill="c0")
            display.spans([(np.array([0, i]), np.array([1, i + 2]), "c1")], 10 * i, 8, least=1)
    display.text(0, 1, "", size=12)
    display.text(0, 0, "marks", size=12)
    with display.moved(3):
        pass
    return display


def test_the_page_gets_the_marks_that_were_packed(node: str) -> None:
    lists = {"one": sample(), "two": sample(), "none": Display(0)}
    command = [node, "--input-type=module", "-e", PROGRAM]
    done = subprocess.run(command, input=json.dumps(packed(lists)), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {name: display.payload() for name, display in lists.items()}


def test_what_marks_have_in_common_is_written_once() -> None:
    small, large = Display(10), Display(10)
    for display, count in ((small, 1), (large, 101)):
        for i in range(count):
            display.text(84, i, f"env {i}", fill="muted", size=10, anchor="end")
    grown = len(json.dumps(packed({"a": large}))) - len(json.dumps(packed({"a": small})))
    assert grown < 100 * len('[0, 100, "env 100"],')


def test_a_trait_travels_as_deflated_json():
    """A value and its JSON travel in the same way; a lone surrogate is escaped, which UTF-8 cannot hold."""
    for value in ({"a": [1, "é"]}, json.dumps({"a": [1, "é"]}, ensure_ascii=False)):
        assert json.loads(zlib.decompress(AS_JSON["to_json"](value, None))) == {"a": [1, "é"]}
    lone = json.dumps({"key": "k\ud800"}, ensure_ascii=False)
    assert json.loads(zlib.decompress(AS_JSON["to_json"](lone, None)).decode()) == {"key": "k\ud800"}
