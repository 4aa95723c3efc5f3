"""Drawings of environments computed from observations alone, without a rendering library or an env."""

from rlnb_widgets._core.colors import ROLES
from rlnb_widgets.scenes.drawing import box, disc, line, polygon, text
from rlnb_widgets.scenes.registry import FitsEnv, SceneSpec, find_scene, register_scene, scene_names
from rlnb_widgets.scenes.scene import Limit, Part, Scene, scene_svg

__all__ = [
    "ROLES", "FitsEnv", "Limit", "Part", "Scene", "SceneSpec", "box", "disc", "find_scene", "line", "polygon",
    "register_scene", "scene_names", "scene_svg", "text",
]  # fmt: skip
