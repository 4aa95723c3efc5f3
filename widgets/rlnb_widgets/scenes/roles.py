"""Colour roles of scenes, with a light and a dark value each."""

from __future__ import annotations

from rlnb_widgets._core.colors import AGENTS

#: Role name to (colour on a light page, colour on a dark page).
ROLES: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#16191f"),
    "ink": ("#1f2933", "#e6e9ee"),
    "muted": ("#8592a3", "#7d8896"),
    "faint": ("#e3e8ee", "#2c323c"),
    "accent": ("#2f6fde", "#6ea3ff"),
    "second": ("#e08a1e", "#f2ac4e"),
    "goal": ("#2a9d62", "#4ecb8d"),
    "danger": ("#d64545", "#f07070"),
    "water": ("#3d86c6", "#2a5f93"),
    "ice": ("#e4f1fa", "#243848"),
    "wood": ("#c79a63", "#b98a52"),
    "case": ("#aab6c4", "#46505e"),
    "ground": ("#d9e2cf", "#35412f"),
    "yellow": ("#e8bd2c", "#f0cf57"),
    **{f"agent{k}": pair for k, pair in enumerate(AGENTS)},
}


def role_hint(role: str) -> str:
    """Return the message for an unknown role."""
    return f"unknown colour role {role!r}; the roles are {', '.join(ROLES)}."
