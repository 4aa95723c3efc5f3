"""The marks of a lane: Python makes them for the static view, JavaScript for the live one, and they are the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import rlnb_widgets.spec_explorer as package
import torch
from rlnb_widgets import SpecExplorer
from rlnb_widgets._core.display import Display
from rlnb_widgets.spec_explorer.scene import draw_lane

from rlnb.data import Binary, Bounded, Categorical, MultiOneHot, OneHot, Unbounded

MODULE = Path(package.__file__).with_name("lanes.js").as_uri()
BOX = (7.0, 4.0, 200.0, 14.0)
SPECS = {
    "closed": Bounded(-1, 1, shape=(1,)),
    "open": Bounded(0, torch.inf, shape=(1,)),
    "unbounded": Unbounded(1),
    "choices": Categorical(5),
    "masked choices": Categorical(4, mask=torch.tensor([True, False, True, False])),
    "cells": OneHot(3),
    "masked cells": OneHot(3, mask=torch.tensor([True, False, True])),
    "many cells": OneHot(60),
    "bits": Binary(4),
    "parts": MultiOneHot([2, 3]),
}


def test_both_languages_make_the_same_marks(missing: Callable[..., NoReturn]) -> None:
    if shutil.which("node") is None:
        missing("node", "no `node` on the PATH; install Node.js 20 or newer")
    asked, made = [], []
    for spec in SPECS.values():
        explorer = SpecExplorer(spec)
        lanes = json.loads(explorer.payload)["rows"][0]["lanes"]
        levels = json.loads(explorer.samples)[0]["levels"]
        for lane, plain, bars in zip(explorer.model.rows[0].cell.domain.lanes, lanes, levels, strict=True):
            display = Display(20)
            draw_lane(display, lane, bars, BOX)
            made.append(display.payload()["marks"])
            asked.append([plain, bars, None, list(BOX)])
    script = (
        f"import {{ laneMarks }} from {json.dumps(MODULE)};"
        "import { readFileSync } from 'node:fs';"
        "console.log(JSON.stringify(JSON.parse(readFileSync(0)).map((given) => laneMarks(...given))))"
    )
    run = ["node", "--input-type=module", "-e", script]
    found = json.loads(subprocess.run(run, input=json.dumps(asked), capture_output=True, text=True, check=True).stdout)
    assert [[_flat(mark) for mark in lane] for lane in found] == [[_flat(mark) for mark in lane] for lane in made]


def _flat(value: object) -> object:
    if isinstance(value, dict):
        return {name: _flat(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_flat(part) for part in value]
    return round(float(value), 4) if isinstance(value, (int, float)) else value
