"""Scene of a bandit: a column per arm that grows with its pulls, and a mark over the pulled arm."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets.scenes.drawing import box, line, paper, polygon, pose, stack, text
from rlnb_widgets.scenes.inputs import action_indices, feature_rows
from rlnb_widgets.scenes.scene import Part, Scene

_WIDTH, _HEIGHT = 360.0, 150.0
_BASE, _TALLEST = 120.0, 92.0
_MARK = 11.0
_MOST_LABELS = 20  # more of them would overlap


class Bandit:
    """Draws a k-armed bandit from the number of pulls of each arm; the largest number fills the height.

    Without ``n_arms`` there are as many arms as the observations have columns.

    Example:
        >>> import numpy as np
        >>> scene = Bandit().pose(np.array([[0, 0, 0], [0, 1, 0]]), actions=np.array([1]))
        >>> scene.caption_at(0), scene.caption_at(1)
        ('no pulls yet, pulling arm 1', '1 pull, most of arm 1 (1)')
    """

    def __init__(self, n_arms: int | None = None) -> None:
        self.fields = () if n_arms is None else tuple(f"pulls of arm {k}" for k in range(n_arms))

    def for_env(self, env: Any) -> Bandit:
        """Return the scene with as many arms as `env` has actions."""
        n_arms = getattr(env, "n_actions", None)
        return Bandit(n_arms) if isinstance(n_arms, int) else self

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of pulls [N, k], with the pull where actions (index [N] or one-hot [N, k]) are given."""
        shape = np.shape(observations)
        fields = self.fields or tuple(f"pulls of arm {k}" for k in range(shape[-1] if len(shape) > 1 else 1))
        pulls, arms = feature_rows(observations, "Bandit", fields), len(fields)
        pulled = action_indices(actions, arms, len(pulls), "Bandit")
        shown, column = np.isfinite(pulls[:, 0]), _WIDTH / arms
        most = max(1.0, float(np.nanmax(pulls))) if shown.any() else 1.0
        top = _BASE - np.nan_to_num(pulls) / most * _TALLEST
        x = (np.arange(arms) + 0.5) * column
        arm = np.nan_to_num(pulled).astype(np.intp)
        poses = stack(
            len(pulls),
            *(pose(x[k], top[:, k], 0.0, shown) for k in range(arms)),
            pose(0.0, _BASE, 0.0, True),
            pose(x[arm], top[np.arange(len(pulls)), arm] - 5, 0.0, shown & np.isfinite(pulled)),
        )

        def caption(i: int) -> str:
            if not shown[i]:
                return "no observation"
            total, best = int(pulls[i].sum()), int(pulls[i].argmax())
            words = f"{total} pull{'s' if total > 1 else ''}, most of arm {best} ({int(pulls[i, best])})"
            words = words if total else "no pulls yet"
            return words if np.isnan(pulled[i]) else f"{words}, pulling arm {arm[i]}"

        return Scene(_WIDTH, _HEIGHT, [paper(_WIDTH, _HEIGHT)], _parts(arms), poses, caption)


def _parts(arms: int) -> tuple[Part, ...]:
    """Return the columns, the floor that hides their lower ends, and the mark."""
    column = _WIDTH / arms
    half = column * 0.36
    bar = box(-half, 0, 2 * half, _TALLEST, "accent")
    size = min(20.0, column * 0.6)
    labels = (text((k + 0.5) * column, 20, size, str(k)) for k in range(arms if arms <= _MOST_LABELS else 0))
    mark = polygon([(-_MARK, -1.6 * _MARK), (_MARK, -1.6 * _MARK), (0, 0)], "second")
    return (
        *(Part(f"arm {k}", [bar]) for k in range(arms)),
        Part("floor", [paper(_WIDTH, _TALLEST), line(0, 0, _WIDTH, 0, "muted"), *labels]),
        Part("pull", [mark]),
    )
