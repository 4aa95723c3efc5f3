"""check_ted: validates TED data and reports the rules it breaks, where, and how to fix them."""

from __future__ import annotations

from dataclasses import dataclass

from tensordict import TensorDictBase

from rlnb.data.ted.facts import Facts, index_text
from rlnb.data.ted.rules import TED_RULES, TED_WARNINGS, Finding, Rule


@dataclass(frozen=True)
class TEDReport:
    """The result of :func:`check_ted`.

    Args:
        batch_size: batch size of the data.
        findings: the places where rules are broken, in the order of the rules.
        rules: the rules that were checked.
        warnings: likely mistakes that break no rule, such as an end signal inside an episode.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> report = check_ted(GymEnv("CartPole-v1").rollout(5))
        >>> report.ok, report.broken()
        (True, [])
    """

    batch_size: tuple[int, ...]
    findings: tuple[Finding, ...]
    rules: tuple[Rule, ...] = TED_RULES
    warnings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the data is well-formed."""
        return not self.findings

    def broken(self) -> list[str]:
        """List the names of the rules that are broken, each once, in order."""
        return list(dict.fromkeys(finding.rule for finding in self.findings))

    def raise_if_broken(self) -> None:
        """Raise a ``ValueError`` with the text of the report if a rule is broken."""
        if self.findings:
            raise ValueError(str(self))

    def __str__(self) -> str:
        size = list(self.batch_size)
        head = f"Well-formed TED data of batch size {size}: {len(self.rules)} rules kept."
        if not self.ok:
            count = "1 problem" if len(self.findings) == 1 else f"{len(self.findings)} problems"
            head = f"This is not well-formed TED data (batch size {size}): {count}."
        lines = [head, *self._section(self.findings, "What to do:", self.rules)]
        return "\n".join([*lines, *self._section(self.warnings, "Likely mistakes that break no rule:", TED_WARNINGS)])

    @staticmethod
    def _section(findings: tuple[Finding, ...], title: str, rules: tuple[Rule, ...]) -> list[str]:
        if not findings:
            return []
        rows = [("rule", "entry", "index", "found")]
        rows += [(f.rule, f.entry, index_text(f.index), f.found) for f in findings]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
        table = ["  " + "  ".join(row).rstrip() for row in padded]
        sentences = {rule.name: rule.sentence for rule in rules}
        causes = dict.fromkeys(
            f"  - {f.rule}: {sentences.get(f.rule, '')} Likely cause: {f.cause}. Fix: {f.fix}." for f in findings
        )
        return ["", *table, "", title, *causes]

    __repr__ = __str__


def check_ted(data: TensorDictBase, rules: tuple[Rule, ...] = TED_RULES) -> TEDReport:
    """Check whether data is in the TorchRL Episode Data format.

    The report also warns of end signals inside an episode, which the observations reveal. It cannot detect that all
    actions or all rewards are shifted by a step; compare such data with a rollout of the env.

    Args:
        data: a rollout, a batch of a collector, or the output of ``split_trajectories``. Steps that a "mask" excludes
            are ignored.
        rules: the rules to check.

    Returns:
        The report, which lists all problems.

    Raises:
        TypeError: If ``data`` is not a TensorDict.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> rollout = GymEnv("CartPole-v1").rollout(5)
        >>> check_ted(rollout)
        Well-formed TED data of batch size [5]: 12 rules kept.
        >>> print(check_ted(rollout.exclude("next")).broken())
        ['next']
    """
    if not isinstance(data, TensorDictBase):
        raise TypeError(f"check_ted needs a TensorDict, got a {type(data).__name__}. Fix: pass env.rollout(10).")
    try:
        facts = Facts(data)
    except (ValueError, TypeError) as error:
        cause, _, fix = str(error).partition(" Fix: ")
        finding = Finding("alike", "", None, "entries that are not of one shape", cause.rstrip("."), fix.rstrip("."))
        return TEDReport(tuple(data.batch_size), (finding,), rules)
    findings = [finding for rule in rules for finding in rule.check(facts)]
    warnings = [finding for rule in TED_WARNINGS for finding in rule.check(facts)]
    return TEDReport(tuple(data.batch_size), tuple(findings), rules, tuple(warnings))
