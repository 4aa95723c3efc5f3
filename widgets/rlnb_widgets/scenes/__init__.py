"""Drawings of environments computed from observations alone, without a rendering library or an env."""

from rlnb_widgets._core.colors import ROLES
from rlnb_widgets.scenes.registry import FitsEnv, SceneSpec, find_scene, register_scene, scene_names
from rlnb_widgets.scenes.scene import Limit, Part, Scene, Shape, scene_svg

__all__ = [
    "ROLES", "FitsEnv", "Limit", "Part", "Scene", "SceneSpec", "Shape", "find_scene", "register_scene", "scene_names",
    "scene_svg",
]  # fmt: skip
