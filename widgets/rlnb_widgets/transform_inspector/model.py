"""Conversion of an env to the model that the inspector shows."""

from __future__ import annotations

import dataclasses
from typing import Any

from rlnb.envs.base import EnvBase
from rlnb.envs.batched.batched_env import BatchedEnvBase
from rlnb.envs.transforms.transform import Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv
from rlnb_widgets._core.literals import object_text
from rlnb_widgets._core.text import shorten
from rlnb_widgets.transform_inspector.chain import transform_boxes
from rlnb_widgets.transform_inspector.schema import InspectorModel, Moment

MAX_MOMENTS = 24


def inspector_model(env: TransformedEnv, seed: int | None = None) -> InspectorModel:
    """Describe the chain of an env, without running it.

    Raises:
        TypeError: If ``env`` is not a TransformedEnv.

    Example:
        >>> from rlnb.envs import CartPoleEnv, StepCounter
        >>> model = inspector_model(TransformedEnv(CartPoleEnv(), StepCounter()))
        >>> [(box.name, box.code, box.writes) for box in model.boxes]
        [('StepCounter', 'env.transform', ('"step_count"',))]
    """
    if not isinstance(env, TransformedEnv):
        raise TypeError(_no_chain(env))
    boxes, given, taken = transform_boxes(env)
    base = env.base_env
    return InspectorModel(type(base).__name__, shorten(object_text(base), 80), boxes, given, taken, seed=seed)


def with_moment(model: InspectorModel, moment: Moment) -> InspectorModel:
    """Add a reset or step, and drop the oldest ones if there are many."""
    return dataclasses.replace(model, moments=(*model.moments, moment)[-MAX_MOMENTS:])


def assert_inspectable(env: Any) -> None:
    """Raise ``TypeError`` if an argument is neither an env nor a function that may make one.

    Transforms and the class itself are callable too.
    """
    if isinstance(env, Transform) or env is TransformedEnv or not (isinstance(env, EnvBase) or callable(env)):
        raise TypeError(_no_chain(env))


def _no_chain(env: Any) -> str:
    got = f"the class {env.__name__}" if isinstance(env, type) else f"a {type(env).__name__}"
    text = f"TransformInspector takes a TransformedEnv, or a function that makes one, got {got}."
    if isinstance(env, BatchedEnvBase):
        return (
            f"{text} Transforms of the envs in it are not seen from here. Fix: TransformInspector(make_env), with the "
            "function that makes one of them."
        )
    if isinstance(env, EnvBase):
        return f"{text} It has no transforms. Fix: TransformInspector(TransformedEnv(env, transform))."
    if isinstance(env, Transform) and env._env() is not None:
        return f"{text} It is in an env. Fix: TransformInspector(env)."
    return f"{text} Fix: TransformInspector(TransformedEnv(base_env, transform))."
