"""Comparison of TED data with specs: the spec of each entry, and the findings of the library's checker."""

from __future__ import annotations

from typing import Any

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.violations import Violation, violations
from rlnb.data.ted.keys import END_KEYS
from rlnb_widgets._core.text import number_text
from rlnb_widgets.ted_explorer.entries import Path
from rlnb_widgets.ted_explorer.schema import Finding, Side

ROOT_PARTS = ("full_observation_spec", "full_state_spec", "full_action_spec", "full_done_spec")
NEXT_PARTS = ("full_observation_spec", "full_reward_spec", "full_done_spec")
FAMILIES = ("action", "reward", *END_KEYS)

Problems = dict[Path, tuple[Finding, ...]]


def problems_of(spec: Any, td: Any, following: Any) -> tuple[Problems, tuple[str, ...]]:
    """Return the mismatches with a spec by path, and sentences about what could not be checked.

    Raises:
        TypeError: If ``spec`` is neither a ``Composite`` nor an environment.

    Example:
        >>> import torch
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> td = TensorDict({"x": torch.tensor([0.0, 3.0])}, [2])
        >>> found, _ = problems_of(Composite(x=Bounded(-1, 1, shape=())), td, None)
        >>> found["x",][0].text()
        'root: outside its domain at [1]: expected [-1, 1], got 3'
    """
    root_spec, next_spec, whole = _by_side(spec)
    sides: list[tuple[Side, Composite, Any]] = []
    if following is None:
        sides.append(("root", root_spec, td))
    else:
        sides += [("root", root_spec, td.exclude("next")), ("next", next_spec, following)]
    found: Problems = {}
    notes = []
    for side, part, data in sides:
        timed = following is not None and len(td.batch_size) == part.ndim + 1
        try:
            broken = violations(part, data, time_dim=timed)
        except Exception as error:
            reason = str(error).strip().split("\n")[0][:160]
            notes.append(f"The {side} could not be held against the spec: {type(error).__name__}: {reason}")
            continue
        for violation in broken:
            if violation.kind == "extra" and not whole and violation.key[-1] in FAMILIES:
                continue
            found[violation.key] = (*found.get(violation.key, ()), _finding(side, violation))
    return found, tuple(notes)


def _by_side(spec: Any) -> tuple[Composite, Composite, bool]:
    """Return the specs of the root and of ``"next"``, and whether they name every entry."""
    if not isinstance(spec, Composite):
        inner = getattr(spec, "specs", None)
        if not isinstance(inner, Composite):
            raise TypeError(
                f"spec must be a Composite (such as env.observation_spec or env.specs) or an environment, got "
                f"{type(spec).__name__}. Give a single spec a key: Composite(observation=spec)."
            )
        spec = inner
    names = set(spec.keys())
    if names & {"input_spec", "output_spec"}:
        parts = {
            key: part for half in ("input_spec", "output_spec") if half in names for key, part in spec[half].items()
        }
        sides = [Composite(shape=spec.shape), Composite(shape=spec.shape)]
        for side, wanted in zip(sides, (ROOT_PARTS, NEXT_PARTS), strict=True):
            for name in wanted:
                if name in parts:
                    side.update(parts[name])
        return sides[0], sides[1], True
    if "next" in names:
        return spec.exclude("next"), spec["next"], True
    return spec.exclude("reward"), spec.exclude("action"), False


def _finding(side: Side, violation: Violation) -> Finding:
    got = violation.got if violation.value is None else number_text(violation.value)
    return Finding(side, violation.kind, violation.expected, got, violation.index or (), violation.fix)
