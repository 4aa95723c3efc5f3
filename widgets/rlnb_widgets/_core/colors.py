"""Colour roles: what a colour means, with a light and a dark value, the same in all visualizers.

Pictures never name a colour, they name a *role* (``"ink"``, ``"accent"``, ``"c3"``), and a role means one thing. The
SVG writer and the style sheet of the live widgets are both generated from `ROLES`; the JavaScript reads them back from
the style sheet. The values were chosen together: marks that occur in one picture differ for people with and without
colour blindness, which the tests check.
"""

from __future__ import annotations

#: Lines, bars and categories, such as actions: blue, orange, green, red, pink, petrol, olive and grey.
SERIES: tuple[tuple[str, str], ...] = (
    ("#4687e1", "#91a5ff"),
    ("#c37305", "#f0aa37"),
    ("#2d914b", "#69be7d"),
    ("#be372d", "#ff5a50"),
    ("#b95596", "#e196c8"),
    ("#0f5f6e", "#0fcddc"),
    ("#969641", "#ebe141"),
    ("#6e6e6e", "#aaa5a5"),
)

#: Agents and players, wherever one is shown; the first four are also apart from `SERIES`, ``"good"`` and ``"bad"``.
AGENTS: tuple[tuple[str, str], ...] = (
    ("#3c41aa", "#b9b9fa"),
    ("#cc8400", "#e69f00"),
    ("#6d1a45", "#f9c9df"),
    ("#9a4dff", "#a95cff"),
    ("#10183a", "#fff3b0"),
    ("#990000", "#ff3d7f"),
    ("#e05269", "#8be36b"),
    ("#2a00ff", "#9a9a9a"),
)

#: Roles of text, which are marks, too: a contrast of at least 4.5 to 1 on paper.
TEXTS: dict[str, tuple[str, str]] = {
    "ink": ("#1f2328", "#e6e6e6"),  # text, outlines, the playhead
    "muted": ("#57606a", "#a3a9b1"),  # text and lines that only help to read
    "accent": ("#0072b2", "#4aa8e0"),  # what is chosen, moves, or is drawn of an env; a truncated end
    "good": ("#007a59", "#1fbf92"),  # a test passed, a goal
    "bad": ("#c44f00", "#f0803c"),  # a test failed, what ends an episode
    "warn": ("#9a6700", "#e6b13d"),  # what needs attention
    "batch": ("#96346f", "#e09cc2"),  # batch dimensions
    "time": ("#005f96", "#5cb2e6"),  # the time dimension
    "nested": ("#855800", "#e6b13d"),  # dimensions of nested batches
}
#: Roles of other marks: a contrast of at least 3 to 1 on paper.
MARKS: dict[str, tuple[str, str]] = {
    **{f"c{i}": pair for i, pair in enumerate(SERIES)},
    **{f"agent{k}": pair for k, pair in enumerate(AGENTS)},
    "lit": ("#b57600", "#ffc24d"),  # what happens at the playhead: lines, and the edge of what is highlighted
    "other": ("#7d12f0", "#b026ff"),  # the second of two rollouts that are compared
    "second": ("#b48c3c", "#ebbe41"),  # in drawings of envs: the action that is taken, and who takes it
    "wood": ("#8a5a3c", "#c4875e"),
    "water": ("#3d86c6", "#4a8cc4"),
    "yellow": ("#a08600", "#f0cf57"),
}
#: Roles of surfaces and hairlines, on which marks lie.
SURFACES: dict[str, tuple[str, str]] = {
    "line": ("#d0d7de", "#454b54"),  # hairlines: axes, borders, grids
    "paper": ("#ffffff", "#161a1f"),  # the background of a picture
    "panel": ("#f4f6f8", "#22272e"),  # a box on it
    "highlight": ("#fff3bf", "#4d4420"),  # what changed at the playhead
    "ice": ("#e4f1fa", "#243848"),
    "case": ("#aab6c4", "#46505e"),  # the case of a board
    "ground": ("#d9e2cf", "#35412f"),
    "print": ("#000000", "#000000"),  # letters on marks that are too light for those of paper
}
#: Role to (light, dark) colour. Every picture uses these names only.
ROLES: dict[str, tuple[str, str]] = {**TEXTS, **MARKS, **SURFACES}

# JupyterLab's own variables win over ours where they mean the same, so that a custom theme carries through.
_JUPYTER = {"ink": "--jp-ui-font-color1", "paper": "--jp-layout-color0", "panel": "--jp-layout-color1"}


def role_of(name: str) -> str:
    """Return the name of a role after checking that it exists.

    Raises:
        ValueError: If there is no such role.

    Example:
        >>> role_of("ink")
        'ink'
    """
    if name not in ROLES:
        raise ValueError(f"unknown colour role {name!r}; the roles are {', '.join(ROLES)}.")
    return name


def agent_role(k: int) -> str:
    """Return the role of agent or player *k*, the same in scenes, lanes, strips and legends (they repeat after eight).

    Example:
        >>> agent_role(9)
        'agent1'
    """
    return f"agent{k % len(AGENTS)}"


#: Lines and agents on which letters of paper have less than 4.5 to 1.
_PALE = ("c0", "c1", "c2", "c4", "c6", "agent1", "agent3", "agent6")


def letters_on(role: str) -> str:
    """Return the role of letters on a mark that has the role of a line, a category or an agent.

    Example:
        >>> letters_on("agent0"), letters_on("agent1")
        ('paper', 'print')
    """
    return "print" if role in _PALE else "paper"


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
        return "\n".join([*rules, f"  color-scheme: {'dark' if dark else 'light'};"])

    dark = block(True)
    return (
        f".rlnb {{\n{block(False)}\n}}\n"
        "@media (prefers-color-scheme: dark) { body:not([data-jp-theme-light]):not(.vscode-light) .rlnb "
        f"{{\n{dark}\n}} }}\n"
        f'body[data-jp-theme-light="false"] .rlnb, body.vscode-dark .rlnb {{\n{dark}\n}}\n'
    )
