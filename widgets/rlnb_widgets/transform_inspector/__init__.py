"""Inspector of transform chains: boxes with keys and specs, and a step on its way through them."""

from __future__ import annotations

from rlnb_widgets.transform_inspector.model import inspector_model
from rlnb_widgets.transform_inspector.schema import Box, Change, InspectorModel, Moment, Thumbnail, Value
from rlnb_widgets.transform_inspector.widget import TransformInspector

__all__ = ["Box", "Change", "InspectorModel", "Moment", "Thumbnail", "TransformInspector", "Value", "inspector_model"]
