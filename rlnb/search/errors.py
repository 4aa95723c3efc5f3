"""Error texts that several modules of the search share."""

from __future__ import annotations


def no_legal_action(where: int, at: str) -> str:
    """Return the text for the ``at`` ("root" or "position") with index ``where``, which has no legal action."""
    return (
        f"The mask of {at} {where} has no legal action, and the episode has not ended there. A search needs an action "
        'to try. Fix: in the env, set "done" where no action is left, or leave one open in the mask.'
    )


__all__ = ["no_legal_action"]
