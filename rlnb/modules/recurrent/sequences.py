"""Running recurrent networks over batches of sequences in which the state is reset at some steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rlnb.modules.recurrent.cells import GRU, LSTM

Tensor = torch.Tensor


def run_sequences(net: nn.RNNBase, value: Tensor, init: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Run a batch-first network over sequences ``[batch, time, input_size]``; states are zeroed where ``init`` is True.

    Each of the one or two states is ``[batch, time, num_layers, size]``; only its first step is read.

    Returns:
        The outputs, ``[batch, time, size]``, and the states after the last step and after each step that precedes an
        ``init``, of the shape of ``states``; zeros at all other steps.
    """
    first = [state[:, 0].masked_fill(init[:, 0, None, None], 0) for state in states]
    if value.shape[1] == 1 or not bool(init[:, 1:].any()):
        output, last = _run(net, value, first)
        return output, [_at_the_end(state, value.shape[1]) for state in last]
    if isinstance(net, (GRU, LSTM)):
        return _step_by_step(net, value, init, first)
    return _in_segments(net, value, init, first)


def _run(net: nn.RNNBase, value: Any, states: list[Tensor]) -> tuple[Any, list[Tensor]]:
    """Run a network without resets; the states are ``[batch, num_layers, size]``."""
    given = [state.transpose(0, 1).contiguous() for state in states]
    output, last = net(value, given[0] if len(given) == 1 else tuple(given))
    return output, [state.transpose(0, 1) for state in ([last] if len(given) == 1 else last)]


def _at_the_end(state: Tensor, time: int) -> Tensor:
    """Place a state at the last of ``time`` steps, with zeros before it."""
    if time == 1:
        return state.unsqueeze(1)
    return torch.nn.functional.pad(state.unsqueeze(1), (0, 0, 0, 0, time - 1, 0))


def _step_by_step(net: nn.RNNBase, value: Tensor, init: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Run a network written in Python, which gains nothing from longer segments."""
    outputs: list[Tensor] = []
    after: list[list[Tensor]] = [[] for _ in states]
    for t in range(value.shape[1]):
        states = [state.masked_fill(init[:, t, None, None], 0) for state in states]
        output, states = _run(net, value[:, t : t + 1], states)
        outputs.append(output)
        for found, state in zip(after, states, strict=True):
            found.append(state)
    ends = torch.cat([init[:, 1:], torch.ones_like(init[:, :1])], 1)[:, :, None, None]
    return torch.cat(outputs, 1), [torch.stack(found, 1).masked_fill(~ends, 0) for found in after]


def _in_segments(net: nn.RNNBase, value: Tensor, init: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Split the sequences at the resets, and run over all segments as one packed batch."""
    rows, time = init.shape
    begins = init.clone()
    begins[:, 0] = True
    flat = begins.flatten()
    segment = flat.cumsum(0) - 1
    starts = flat.nonzero().flatten()
    lengths = torch.diff(starts, append=starts.new_tensor([rows * time]))
    place = torch.arange(rows * time, device=value.device) - starts[segment]
    padded = value.new_zeros(len(starts), int(lengths.max()), value.shape[-1])
    padded = padded.index_put((segment, place), value.flatten(0, 1))
    # A segment at the start of a sequence begins with the given state, every other one with zeros.
    of_row, leads = starts // time, starts % time == 0
    given = [torch.where(leads[:, None, None], state[of_row], 0) for state in states]
    packed = pack_padded_sequence(padded, lengths.cpu(), batch_first=True, enforce_sorted=False)
    output, last = _run(net, packed, given)
    output = pad_packed_sequence(output, batch_first=True)[0][segment, place].unflatten(0, (rows, time))
    ends = starts + lengths - 1
    after = [
        state.new_zeros(rows * time, *state.shape[1:]).index_put((ends,), state).unflatten(0, (rows, time))
        for state in last
    ]
    return output, after
