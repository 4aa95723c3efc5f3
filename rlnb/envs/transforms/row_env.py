"""TransformedRows: a TransformedEnv fills rows where its base env and its transforms do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data.ted.block import LeafInfo, Rows
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.around import AroundBase
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.rows import Stage, bind, stages
from rlnb.envs.transforms.transform import Transform

_PASSED_BY = ("reset", "step", "rand_action", "maybe_reset", "_reset", "_step", "_step_mdp", "_reset_base")


class TransformedRows(AroundBase):
    """What makes a :class:`TransformedEnv` a :class:`~rlnb.envs.rows.RowEnv`."""

    @property
    def _fills_rows(self) -> bool:
        base: Any = self._base
        if self.batch_size or not getattr(base, "_fills_rows", False) or self._stages() is None:
            return False
        # numpy knows neither gradients nor other devices.
        tensors = (*self._chain.parameters(), *self._chain.buffers())
        return not any(tensor.requires_grad or tensor.device.type != "cpu" for tensor in tensors)

    def _stages(self) -> list[Stage] | None:
        """What the transforms do to rows; None if one of them cannot, or someone overrides what rows go past."""
        self._follow_base()
        if "stages" not in self._cache:
            self._cache["stages"] = None if self._inverts or self._overrides() else self._find_stages()
        return self._cache["stages"]

    def _overrides(self) -> bool:
        from rlnb.envs.transforms.transformed_env import TransformedEnv

        return any(getattr(type(self), name) is not getattr(TransformedEnv, name) for name in _PASSED_BY)

    def _find_stages(self) -> list[Stage] | None:
        base: Any = self._base
        root, next_only = base._row_leaves()
        found = stages(_flat(self._chain), base.output_spec, root, next_only)
        if found is None or self.device != base.device:
            return None
        names = {*self.observation_keys, *self.done_keys, *self.reward_keys}
        # What a transform takes away has no rows.
        return found if names == {*found[-1].root, *found[-1].next_only} else None

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        found = self._stages()
        assert found is not None
        return found[-1].root, found[-1].next_only

    def _row_functions(self, block: Any) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        found, base = self._stages(), self._base
        assert found is not None
        rows, steps, resets = bind(found[:-1], Rows(block.root, block.next))
        base_step, base_reset = base._row_functions(rows)

        def step(t: int, action: Any) -> bool:
            done = base_step(t, action)
            for act in steps:
                if act(t):
                    done = True
            return done

        def reset(t: int) -> None:
            base_reset(t)
            for act in resets:
                act(t)

        return step, reset

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return self._base._drawn_actions(actions)

    def _native_action(self, action: torch.Tensor) -> Any:
        return self._base._native_action(action)


def _flat(transform: Transform) -> list[Transform]:
    """The transforms in a transform, from the inside to the outside."""
    return [part for member in transform for part in _flat(member)] if isinstance(transform, Compose) else [transform]


__all__ = ["TransformedRows"]
