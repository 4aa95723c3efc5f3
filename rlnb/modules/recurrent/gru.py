"""GRUModule: a GRU between entries of a TensorDict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from rlnb.data.ted.keys import NestedKey
from rlnb.modules.recurrent.cells import GRU
from rlnb.modules.recurrent.module import RecurrentModule


class GRUModule(RecurrentModule):
    """A GRU that reads and writes entries of a TensorDict; see :class:`LSTMModule`, of which it differs in its state.

    Args:
        input_size: the number of features.
        hidden_size: the size of the state.
        num_layers: how many GRUs, each on top of the other.
        bias: whether there are biases.
        batch_first: must be True.
        dropout: the probability, in training, that an output of a layer below the last is dropped.
        bidirectional: must be False.
        python_based: make the GRU of :class:`rlnb.modules.GRU`, not of torch.
        in_key: the features; the state is "recurrent_state".
        in_keys: the features and the state, and "is_init" or what it is called.
        out_key: the result; the next state is ("next", "recurrent_state").
        out_keys: the result and the next state.
        device: of the parameters.
        gru: a ``torch.nn.GRU`` to take, in place of sizes.
        default_recurrent_mode: the mode outside of :class:`~rlnb.modules.set_recurrent_mode`. Default: False.

    Raises:
        TypeError: if a size is no integer, or ``gru`` no GRU.
        ValueError: if the keys are too few or too many, or for a network that is not batch first.

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
    _torchs = nn.GRU
    _pythons = GRU

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
