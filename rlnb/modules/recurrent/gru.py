"""GRU module that reads and writes entries of a TensorDict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from rlnb.data.ted.keys import NestedKey
from rlnb.modules.recurrent.cells import GRU
from rlnb.modules.recurrent.module import RecurrentModule


class GRUModule(RecurrentModule):
    """A GRU that reads and writes entries of a TensorDict; like :class:`LSTMModule`, but with a single state.

    Args:
        input_size: number of features.
        hidden_size: size of the state.
        num_layers: number of stacked GRUs.
        bias: whether to use biases.
        batch_first: must be True.
        dropout: dropout probability of the outputs of all layers but the last, in training.
        bidirectional: must be False.
        python_based: whether to use :class:`rlnb.modules.GRU` instead of ``torch.nn.GRU``.
        in_key: key of the features; the key of the state is then "recurrent_state".
        in_keys: keys of the features and of the state, and optionally the key of "is_init".
        out_key: key of the output; the key of the next state is then ("next", "recurrent_state").
        out_keys: keys of the output and of the next state.
        device: device of the parameters.
        gru: a ``torch.nn.GRU`` to use, instead of sizes.
        default_recurrent_mode: the mode outside of :class:`~rlnb.modules.set_recurrent_mode`. None: False.

    Raises:
        TypeError: If a size is not an integer, or ``gru`` is not a ``torch.nn.GRU``.
        ValueError: If there are too few or too many keys, or the network is not batch-first or is bidirectional.

    Example:
        >>> from rlnb.envs import CartPoleEnv, InitTracker, TransformedEnv
        >>> net = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
        >>> env = TransformedEnv(CartPoleEnv(), InitTracker()).append_transform(net.make_tensordict_primer())
        >>> net(env.reset())["next", "recurrent_state"].shape
        torch.Size([1, 8])
    """

    DEFAULT_IN_KEYS: ClassVar[list[NestedKey]] = ["recurrent_state"]
    DEFAULT_OUT_KEYS: ClassVar[list[NestedKey]] = [("next", "recurrent_state")]
    _name = "gru"
    _torch_class = nn.GRU
    _python_class = GRU

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        python_based: bool = False,
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: Any = None,
        gru: nn.GRU | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        arguments = {"num_layers": num_layers, "bias": bias, "dropout": dropout, "device": device}
        arguments |= {"bidirectional": bidirectional, "batch_first": batch_first}
        net = self._make_net(gru, python_based, (input_size, hidden_size), arguments)
        super().__init__(net, in_key, in_keys, out_key, out_keys, default_recurrent_mode)


__all__ = ["GRUModule"]
