"""LSTM and GRU written in Python: slower than those of torch, but usable with ``torch.func.vmap``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout, linear

Tensor = torch.Tensor


class LSTMCell(nn.LSTMCell):
    """One step of an LSTM in Python, with the parameters of ``torch.nn.LSTMCell``.

    Example:
        >>> cell, torchs = LSTMCell(3, 4), torch.nn.LSTMCell(3, 4)
        >>> _ = cell.load_state_dict(torchs.state_dict())
        >>> value = torch.ones(2, 3)
        >>> torch.allclose(cell(value)[0], torchs(value)[0], atol=1e-6)
        True
    """

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Compute the next h and c from the features ``[..., input_size]`` and ``hx``, the pair of h and c.

        Both have shape ``[..., hidden_size]``, and are zeros by default.
        """
        if hx is None:
            zeros = input.new_zeros((*input.shape[:-1], self.hidden_size))
            hx = zeros, zeros
        return lstm_step(input, hx[0], hx[1], (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh))


class GRUCell(nn.GRUCell):
    """One step of a GRU in Python, with the parameters of ``torch.nn.GRUCell``.

    Example:
        >>> GRUCell(3, 4)(torch.ones(2, 3)).shape
        torch.Size([2, 4])
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Compute the next state from the features ``[..., input_size]`` and ``hx``, the state ``[..., hidden_size]``.

        By default the state is zeros.
        """
        if hx is None:
            hx = input.new_zeros((*input.shape[:-1], self.hidden_size))
        return gru_step(input, hx, (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh))[0]


def lstm_step(value: Tensor, h: Tensor, c: Tensor, weights: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Compute the next h and c of an LSTM from the features and the states, ``[..., size]`` each.

    ``weights`` are those of the features and of h, and their biases, which may be None.
    """
    gates = linear(value, weights[0], weights[2]) + linear(h, weights[1], weights[3])
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(value: Tensor, h: Tensor, weights: Sequence[Any]) -> tuple[Tensor]:
    """Compute the next state of a GRU; see :func:`lstm_step`."""
    r, z, n = linear(value, weights[0], weights[2]).chunk(3, -1)
    r_h, z_h, n_h = linear(h, weights[1], weights[3]).chunk(3, -1)
    reset, update = (r + r_h).sigmoid(), (z + z_h).sigmoid()
    new = (n + reset * n_h).tanh()
    return ((h - new) * update + new,)


class LSTM(nn.LSTM):
    """An LSTM in Python, with the parameters of ``torch.nn.LSTM``.

    Args:
        input_size: number of features.
        hidden_size: size of h and c.
        num_layers: number of stacked LSTMs.
        batch_first: whether data is ``[batch, time, features]`` (the default) or ``[time, batch, features]``.
        bias: whether to use biases.
        dropout: dropout probability of the outputs of all layers but the last, in training.
        bidirectional: not supported.
        proj_size: not supported.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Raises:
        ValueError: If an argument that is not supported is set.

    Example:
        >>> output, (h, c) = LSTM(3, 4, num_layers=2)(torch.ones(5, 10, 3))
        >>> output.shape, h.shape
        (torch.Size([5, 10, 4]), torch.Size([2, 5, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _refuse(self, bidirectional, proj_size)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, device=device, dtype=dtype)

    def forward(  # type: ignore[override]  # torch's own also takes packed sequences
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Run over sequences ``[batch, time, input_size]``, or as ``batch_first`` says.

        Args:
            input: the features.
            hx: the first h and c, of shape ``[num_layers, batch, hidden_size]``; zeros if None.

        Returns:
            The h of the last layer at each time, and the last h and c.
        """
        output, (h, c) = _run_layers(self, input, hx, lstm_step)
        return output, (h, c)


class GRU(nn.GRU):
    """A GRU in Python, with the parameters of ``torch.nn.GRU``.

    Args:
        input_size: number of features.
        hidden_size: size of the state.
        num_layers: number of stacked GRUs.
        bias: whether to use biases.
        batch_first: whether data is ``[batch, time, features]`` (the default) or ``[time, batch, features]``.
        dropout: dropout probability of the outputs of all layers but the last, in training.
        bidirectional: not supported.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Raises:
        ValueError: If an argument that is not supported is set.

    Example:
        >>> output, h = GRU(3, 4)(torch.ones(5, 10, 3))
        >>> output.shape, h.shape
        (torch.Size([5, 10, 4]), torch.Size([1, 5, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _refuse(self, bidirectional, 0)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, device=device, dtype=dtype)

    def forward(  # type: ignore[override]  # torch's own also takes packed sequences
        self, input: Tensor, hx: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run over sequences ``[batch, time, input_size]``, or as ``batch_first`` says.

        Args:
            input: the features.
            hx: the first state, ``[num_layers, batch, hidden_size]``. Default: zeros.

        Returns:
            The state of the last layer at each time, and the last state of each layer.
        """
        output, (h,) = _run_layers(self, input, None if hx is None else (hx,), gru_step)
        return output, h


def _refuse(net: Any, bidirectional: bool, proj_size: int) -> None:
    for name, value in (("bidirectional", bidirectional), ("proj_size", proj_size)):
        if value:
            raise ValueError(
                f"{type(net).__name__} of rlnb.modules, which is written in Python, has no {name}. "
                f"Fix: torch.nn.{type(net).__name__}(..., {name}={value})."
            )


def _run_layers(
    net: nn.RNNBase, input: Tensor, states: tuple[Tensor, ...] | None, step: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, list[Tensor]]:
    """Run a network over sequences, layer by layer; return the outputs, and the last states of all layers."""
    values = list(input.unbind(1 if net.batch_first else 0))
    if states is None:
        zeros = values[0].new_zeros(net.num_layers, len(values[0]), net.hidden_size)
        states = (zeros, zeros) if isinstance(net, nn.LSTM) else (zeros,)
    last = []
    for layer, state in enumerate(zip(*states, strict=True)):
        weights = [getattr(net, f"{name}_l{layer}", None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        for t, value in enumerate(values):
            state = step(value, *state, weights)
            values[t] = state[0]
        last.append(state)
        if net.dropout and net.training and layer < net.num_layers - 1:
            values = [dropout(value, net.dropout) for value in values]
    return torch.stack(values, 1 if net.batch_first else 0), [torch.stack(parts) for parts in zip(*last, strict=True)]
