"""Findings of ``check_ted``, assigned to rows, batch elements and steps."""

from __future__ import annotations

import ast
from typing import Any

from rlnb.data.ted.check import TEDReport, check_ted
from rlnb.data.ted.rules import Finding as Broken
from rlnb_widgets._core.text import shorten, without_addresses
from rlnb_widgets.ted_explorer.schema import Place, Side, Verdict

MAX_FINDINGS = 40  # of one rule


def verdicts_of(td: Any) -> tuple[Verdict, ...]:
    """Return a verdict for each rule of TED.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> td = TensorDict({"x": torch.zeros(2), "next": {"x": torch.ones(2)}}, [2])
        >>> [verdict.rule for verdict in verdicts_of(td) if not verdict.kept]
        ['end signals', 'reward', 'action', 'adjacency']
    """
    report = check_ted(td)
    sizes = tuple(int(size) for size in report.batch_size)
    return tuple(Verdict(rule.name, rule.sentence, _places(report, rule.name, sizes)) for rule in report.rules)


def _places(report: TEDReport, rule: str, sizes: tuple[int, ...]) -> tuple[Place, ...]:
    mine = [finding for finding in report.findings if finding.rule == rule]
    return tuple(_place(finding, sizes) for finding in mine[:MAX_FINDINGS])


def _place(finding: Broken, sizes: tuple[int, ...]) -> Place:
    key = ast.literal_eval(finding.entry) if finding.entry else ()
    path = (key,) if isinstance(key, str) else tuple(map(str, key))
    side: Side | None = None if not path else "next" if path[0] == "next" else "root"
    element: int | None = None
    if finding.index is not None:
        element = 0
        for size, at in zip(sizes[:-1], finding.index[:-1], strict=True):
            element = element * size + at
    return Place(
        side,
        path[1:] if side == "next" else path,
        element,
        None if finding.index is None else finding.index[-1],
        shorten(without_addresses(finding.found), 200),
        finding.cause,
        finding.fix,
    )


def rules_line(verdicts: tuple[Verdict, ...]) -> str:
    """Return in one line which rules are kept.

    Example:
        >>> rules_line((Verdict("next", ""), Verdict("time", "", (Place(None, (), None, None, "", "", ""),))))
        'TED rules: 1 of 2 kept; broken: time'
    """
    broken = [verdict.rule for verdict in verdicts if not verdict.kept]
    kept = len(verdicts) - len(broken)
    if not verdicts:
        return ""
    return f"TED rules: {'all ' if not broken else f'{kept} of '}{len(verdicts)} kept" + (
        f"; broken: {', '.join(broken)}" if broken else ""
    )
