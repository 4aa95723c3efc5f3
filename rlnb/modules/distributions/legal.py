"""The legal actions of a masked distribution: read from a mask or from indices, and checked."""

from __future__ import annotations

import torch


def action_mask(
    name: str,
    n_actions: int,
    mask: torch.Tensor | None,
    indices: torch.Tensor | None,
    padding_value: int | None,
    validate: bool,
) -> torch.Tensor:
    """Return which actions are legal.

    Args:
        name: of the distribution, for errors.
        n_actions: how many actions there are, legal or not.
        mask: as given to the distribution.
        indices: as given to the distribution.
        padding_value: as given to the distribution.
        validate: check the values of ``indices``.

    Returns:
        Booleans of shape ``[*batch, n_actions]``, True for the legal actions.

    Raises:
        TypeError: if the mask is not of booleans, or the indices are not integers.
        ValueError: if not exactly one of them is given, or it does not fit the number of actions.
    """
    if (mask is None) == (indices is None):
        raise ValueError(
            f"{name} takes a mask (booleans, True for a legal action) or indices (of the legal actions), and got "
            f"{'neither' if mask is None else 'both'}. In a policy, see that the TensorDict has the entry "
            "that in_keys names, such as 'action_mask'."
        )
    if mask is None:
        assert indices is not None
        return _mask_of(name, n_actions, indices, padding_value, validate)
    if mask.dtype != torch.bool:
        raise TypeError(f"The mask of {name} must have dtype torch.bool and has {mask.dtype}. Fix: mask.bool().")
    if not mask.ndim or mask.shape[-1] != n_actions:
        raise ValueError(
            f"The mask of {name} must have an entry for each of the {n_actions} actions in its last dimension, "
            f"and has shape {list(mask.shape)}."
        )
    return mask


def _mask_of(
    name: str, n_actions: int, indices: torch.Tensor, padding_value: int | None, validate: bool
) -> torch.Tensor:
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == torch.bool:
        raise TypeError(
            f"The indices of {name} must be integers and have dtype {indices.dtype}. "
            f"{'Fix: pass booleans as mask=.' if indices.dtype == torch.bool else 'Fix: indices.long().'}"
        )
    if not indices.ndim:
        raise ValueError(f"The indices of {name} must have at least one dimension. Fix: indices.unsqueeze(-1).")
    indices = indices.long()
    padding = torch.zeros_like(indices, dtype=torch.bool) if padding_value is None else indices == padding_value
    outside = ~padding & ((indices < 0) | (indices >= n_actions))
    if validate and bool(outside.any()):
        raise ValueError(
            f"The indices of {name} must lie between 0 and {n_actions - 1}, and one is {int(indices[outside][0])}. "
            "If it fills up a shorter row, say so: padding_value="
            f"{int(indices[outside][0])}."
        )
    # Padding goes to a column of its own, which is cut off.
    places = indices.masked_fill(padding, n_actions)
    mask = torch.zeros(*indices.shape[:-1], n_actions + 1, dtype=torch.bool, device=indices.device)
    return mask.scatter_(-1, places, True)[..., :n_actions]


def check_weights(name: str, weights: torch.Tensor, mask: torch.Tensor, are_logits: bool) -> None:
    """Check that in each row something can be drawn.

    Args:
        name: of the distribution, for errors.
        weights: logits or probabilities, shape ``[*batch, n_actions]``; those of masked actions are -inf or 0.
        mask: which actions are legal, of the same shape.
        are_logits: whether the weights are logits.

    Raises:
        ValueError: if a row has no legal action, or weights that are no logits or probabilities.
    """
    if are_logits:
        good = weights.amax(-1).isfinite()  # NaN and inf of any legal action show in the maximum
    else:
        good = (weights >= 0).all(-1) & weights.sum(-1).isfinite() & (weights.sum(-1) > 0)
    if bool(good.all()):
        return
    row = tuple((~good).nonzero()[0].tolist())
    where = f" in row {list(row)}" if row else ""
    if not bool(mask[row].any()):
        raise ValueError(
            f"{name} has no legal action{where}: its mask is False throughout. "
            "The usual cause is the mask of an episode that has ended. Fix: reset before acting, "
            "or leave such rows out: data[data['action_mask'].any(-1)]."
        )
    kind = "logits" if are_logits else "probs"
    need = "finite, or -inf for some of them" if are_logits else "finite, not negative, and not all zero"
    legal = ", ".join(f"{value:.4g}" for value in weights[row][mask[row]].tolist())
    raise ValueError(f"The {kind} of {name}{where} must be {need}; those of the legal actions are: {legal}.")


__all__ = ["action_mask", "check_weights"]
