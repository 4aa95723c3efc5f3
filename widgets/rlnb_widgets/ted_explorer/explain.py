"""Description of TED data in words, for beginners and screen readers."""

from __future__ import annotations

import math

from rlnb_widgets._core.text import bytes_text, path_text, plural
from rlnb_widgets.ted_explorer.schema import Row, TedModel
from rlnb_widgets.ted_explorer.text import carry_sentence, finding_lines
from rlnb_widgets.ted_explorer.verdicts import rules_line


def ted_words(model: TedModel) -> str:
    """Explain a model in a few short paragraphs."""
    parts = [_what(model)]
    if model.is_ted:
        parts += [_columns(model), _ends(model), _rules(model)]
    parts += model.notes
    parts.append(_found(model))
    return "\n\n".join(part for part in parts if part)


def _what(model: TedModel) -> str:
    size = f"{plural(model.leaves, 'leaf', 'leaves')} of data, {bytes_text(model.nbytes)} in all"
    if not model.is_ted:
        return f"This TensorDict has {size}, with batch size {list(model.batch)}."
    if model.steps is None:
        return f"This is one step in TED form: {size}."
    several = f" for each of {plural(math.prod(model.batch), 'batch element')}" if model.batch else ""
    return (
        f"This is episode data in TED form: {plural(model.steps, 'step')}{several}, {size}. "
        "Row t holds one step: the root is what was known before the step and the action taken, "
        '"next" is the result: the reward, the next observation and the done flags.'
    )


def _columns(model: TedModel) -> str:
    def listed(kind: str) -> str:
        return ", ".join(path_text(row.path) for row in model.rows if row.leaf and row.carry.kind == kind)

    sentences = []
    if carried := listed("carried"):
        sentences.append(f"step_mdp carries these from next[t] to root[t+1]: {carried}.")
    if dropped := listed("dropped"):
        sentences.append(f"It drops {dropped}, since each step has its own.")
    if kept := listed("kept"):
        sentences.append(f"It keeps {kept}, which only the root has.")
    checked = [row for row in model.rows if row.carry.holds is not None]
    if checked and all(row.carry.holds for row in checked):
        sentences.append("Inside every episode next[t] equals root[t+1], as it must.")
    return " ".join(sentences)


def _ends(model: TedModel) -> str:
    if not model.ends:
        return ""
    kinds: list[str] = [boundary.kind for boundary in model.boundaries]
    counts = [(kinds.count(kind), text) for kind, text in _KINDS.items()]
    listed = "; ".join(f"{n} {text}" for n, text in counts if n)
    if len(kinds) < model.ends:
        listed = f"of the first {len(kinds):,}: {listed}"
    return (
        f"{plural(model.ends, 'episode end')}: {listed}. Done is terminated or truncated. After terminated the value "
        "of the next state is zero; after truncated the episode was only cut, so its value is bootstrapped from the "
        "next observation. Where a step is done, root[t+1] is a fresh reset and need not equal next[t]."
    )


def _rules(model: TedModel) -> str:
    if not model.verdicts:
        return ""
    line = f"{rules_line(model.verdicts)}."
    if not model.past:
        return line
    env, t = model.past[0]
    whose = f" of element {env}" if env else ""
    return (
        f"{line} At step {t}{whose} the root itself is done: somebody stepped past the end of an episode, and there "
        "was no reset. What such a step returns has no meaning."
    )


_KINDS = {
    "terminated": "terminated (the task ended)",
    "truncated": "truncated (cut short, for example by a time limit)",
    "both": "terminated and truncated at once",
    "done": "done without a stated cause",
}


def _found(model: TedModel) -> str:
    found = finding_lines(model)
    if found:
        more = f"\n+{len(found) - 20} more" if len(found) > 20 else ""
        return "Found:\n" + "\n".join(f"- {line}" for line in found[:20]) + more
    fits = []
    if model.checked:
        fits.append("All entries fit the spec.")
    if model.compared:
        fits.append("The other TensorDict holds the same.")
    return " ".join(fits)


def ted_row_words(row: Row) -> str:
    """Explain one row in a sentence or two, for the details pane and screen readers; it may be empty."""
    sentence = carry_sentence(row.carry)
    hint = _MEANING.get(row.path[-1], "") if row.leaf else ""
    return " ".join(part for part in (hint, sentence) if part)


_MEANING = {
    "action": "The action chosen from the root of this row.",
    "reward": "The reward for this row's action.",
    "done": "Whether the episode is over: terminated or truncated.",
    "terminated": "Whether the task itself ended: the value after it is zero.",
    "truncated": "Whether the episode was cut short: the value after it is bootstrapped.",
}
