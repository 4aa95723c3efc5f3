"""Text views of a TED explorer: rules, forms with their bytes, and the walk of one step."""

from __future__ import annotations

from rlnb_widgets._core.text import bytes_text, path_text, percent, shorten, table
from rlnb_widgets.ted_explorer.carrying import FATES, Fate
from rlnb_widgets.ted_explorer.forms import Form
from rlnb_widgets.ted_explorer.layouts import Line
from rlnb_widgets.ted_explorer.schema import Verdict

#: Name of each view and what it is called on its tab.
VIEWS: dict[str, str] = {"entries": "Entries", "rules": "Rules", "forms": "Forms", "steps": "Step to step"}

_MARK = {True: "ok", False: "broken"}


def rules_text(verdicts: tuple[Verdict, ...]) -> str:
    """Return every rule, and below a broken one where it is broken, the likely cause and the fix.

    Example:
        >>> print(rules_text((Verdict("reward", "Rewards are under 'next'."),)))
        ok  reward  Rewards are under 'next'.
    """
    if not verdicts:
        return 'The rules of TED are about data with a "next" and a time dimension: there is nothing to check.'
    lines = table([[_MARK[v.kept], v.rule, v.sentence] for v in verdicts]).split("\n")
    out = []
    for verdict, line in zip(verdicts, lines, strict=True):
        out.append(line)
        for place in verdict.places:
            out.append(f"    {place.where}: {place.found}")
            out.append(f"      likely cause: {place.cause}")
            out.append(f"      fix: {place.fix}")
    return "\n".join(out)


def share_text(form: Form, whole: int) -> str:
    """Return the bytes of a form, and their share of TED's."""
    if form.nbytes is None:
        return "not possible"
    least = "" if form.exact else "at least "
    share = f", {percent(form.nbytes / whole)} of TED" if whole and form.name != "TED" else ""
    return f"{least}{bytes_text(form.nbytes)}{share}"


def forms_text(forms: tuple[Form, ...], layouts: dict[str, tuple[Line, ...]]) -> str:
    """Return the forms with their bytes, and what each stores of the first trajectories."""
    if not forms:
        return "Without a time dimension there are no trajectories to write in another form."
    whole = forms[0].nbytes or 0
    out = []
    for form in forms:
        out.append(f"{form.name}: {share_text(form, whole)}    {form.made}")
        out.append(f"  {form.stores}" + (f" ({form.why})" if form.why else ""))
        rows = [
            [line.label, " ".join(filter(None, (_box(*box) for box in line.boxes)))]
            for line in layouts.get(form.name, ())
        ]
        out += [f"    {line}" for line in table(rows).split("\n")] if rows and form.nbytes is not None else []
    return "\n".join(out)


def _box(text: str, kind: str) -> str:
    return "|" if kind == "gap" else text


def steps_text(fates: tuple[Fate, ...], t: int, steps: int | None) -> str:
    """Return what happens to each entry from step ``t`` to the next one."""
    if steps is None:
        return "Without a time dimension there is no step to walk to."
    then = f"root[{t + 1}]" if t + 1 < steps else "beyond the data"
    rows = [[shorten(path_text(f.path), 30), f.root or "-", f.next or "-", FATES[f.kind], f.then or "-"] for f in fates]
    return table(rows, ["key", f"root[{t}]", f"next[{t}]", "step_mdp", then])
