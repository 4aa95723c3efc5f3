"""Shared base of all visualizers: base class, timeline, links, SVG, text, colours and JavaScript."""

from __future__ import annotations

from rlnb_widgets._core.colors import OKABE_ITO, ROLES
from rlnb_widgets._core.esm import TREE_CSS, bundle_css, bundle_js
from rlnb_widgets._core.link import Link, link
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.timeline import Timeline, TimeTraits
from rlnb_widgets._core.visualizer import Visualizer

__all__ = [
    "OKABE_ITO", "ROLES", "TREE_CSS", "Link", "Svg", "TimeTraits", "Timeline", "Visualizer", "bundle_css", "bundle_js",
    "link",
]  # fmt: skip
