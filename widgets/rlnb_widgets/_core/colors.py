"""Colour palette: the colours of Okabe and Ito, and named roles with a light and a dark value.

Pictures never name a colour, they name a *role* (``"ink"``, ``"accent"``, ``"c3"``). The SVG writer and the style sheet
of the live widgets are both generated from `ROLES`; the JavaScript reads them back from the style sheet.
"""

from __future__ import annotations

#: Okabe and Ito's colours for people with and without colour blindness, in the order used for data series.
OKABE_ITO: tuple[str, ...] = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#999999")

_SERIES_DARK = ("#4aa8e0", "#e69f00", "#1fbf92", "#f0803c", "#d98fb8", "#7cc8f2", "#f0e442", "#a6a6a6")
# Yellow on white is unreadable as a line: its light value is darkened, its dark value is the original.
_SERIES_LIGHT = (*OKABE_ITO[:6], "#a89a00", "#7d7d7d")

#: (light, dark) of agents and players, wherever one is shown. Apart from one another, and the first four also from the
#: roles "goal" and "danger", for people with and without colour blindness, and readable as text on paper.
AGENTS: tuple[tuple[str, str], ...] = (
    ("#0072b2", "#4aa8e0"),
    ("#cc8400", "#e69f00"),
    ("#6d1a45", "#f9c9df"),
    ("#9a4dff", "#a95cff"),
    ("#10183a", "#fff3b0"),
    ("#990000", "#ff3d7f"),
    ("#e05269", "#8be36b"),
    ("#2a00ff", "#9a9a9a"),
)

#: Role to (light, dark) colour. Every picture uses these names only.
ROLES: dict[str, tuple[str, str]] = {
    "ink": ("#1f2328", "#e6e6e6"),
    "muted": ("#57606a", "#a3a9b1"),
    "line": ("#d0d7de", "#454b54"),
    "paper": ("#ffffff", "#161a1f"),
    "panel": ("#f4f6f8", "#22272e"),
    "accent": ("#0072b2", "#4aa8e0"),
    "goal": ("#009e73", "#1fbf92"),
    "good": ("#007a59", "#1fbf92"),
    "danger": ("#c44f00", "#f0803c"),
    "bad": ("#c44f00", "#f0803c"),
    "warn": ("#9a6700", "#e6b13d"),
    "second": ("#e08a1e", "#f2ac4e"),
    "faint": ("#e3e8ee", "#2c323c"),
    "water": ("#3d86c6", "#2a5f93"),
    "ice": ("#e4f1fa", "#243848"),
    "wood": ("#c79a63", "#b98a52"),
    "case": ("#aab6c4", "#46505e"),
    "ground": ("#d9e2cf", "#35412f"),
    "yellow": ("#e8bd2c", "#f0cf57"),
    "batch": ("#96346f", "#e09cc2"),
    "time": ("#005f96", "#5cb2e6"),
    "nested": ("#855800", "#e6b13d"),
    "highlight": ("#fff3bf", "#4d4420"),
    **{f"c{i}": pair for i, pair in enumerate(zip(_SERIES_LIGHT, _SERIES_DARK, strict=True))},
    **{f"agent{k}": pair for k, pair in enumerate(AGENTS)},
}

# JupyterLab's own variables win over ours where they mean the same, so that a custom theme carries through.
_JUPYTER = {"ink": "--jp-ui-font-color1", "paper": "--jp-layout-color0", "panel": "--jp-layout-color1"}


def agent_role(k: int) -> str:
    """Return the role of agent or player *k*, the same in scenes, lanes, strips and legends (they repeat after eight).

    Example:
        >>> agent_role(9)
        'agent1'
    """
    return f"agent{k % len(AGENTS)}"


def css_variables() -> str:
    """Return the style rules that define ``--rlnb-ROLE`` in light and dark for everything under ``.rlnb``.

    Example:
        >>> "--rlnb-accent: #0072b2" in css_variables()
        True
    """

    def block(dark: bool) -> str:
        rules = []
        for role, pair in ROLES.items():
            value = pair[dark]
            if role in _JUPYTER:
                value = f"var({_JUPYTER[role]}, {value})"
            rules.append(f"  --rlnb-{role}: {value};")
        # JavaScript reads --rlnb-dark where it holds pairs of colours of its own.
        rules.append(f"  --rlnb-dark: {int(dark)};")
        return "\n".join([*rules, f"  color-scheme: {'dark' if dark else 'light'};"])

    dark = block(True)
    return (
        f".rlnb {{\n{block(False)}\n}}\n"
        "@media (prefers-color-scheme: dark) { body:not([data-jp-theme-light]):not(.vscode-light) .rlnb "
        f"{{\n{dark}\n}} }}\n"
        f'body[data-jp-theme-light="false"] .rlnb, body.vscode-dark .rlnb {{\n{dark}\n}}\n'
    )
