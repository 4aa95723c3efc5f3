"""LSTMModule: an LSTM between entries of a TensorDict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from rlnb.data.ted.keys import NestedKey
from rlnb.modules.recurrent.cells import LSTM
from rlnb.modules.recurrent.module import RecurrentModule


class LSTMModule(RecurrentModule):
    """An LSTM that reads and writes entries of a TensorDict.

    It writes its next state under "next", so that it comes to the root at the next step; it starts from zeros where
    "is_init" is True, which :class:`~rlnb.envs.InitTracker` writes. Step by step it takes data of shape ``[*batch]``;
    in recurrent mode (see :class:`~rlnb.modules.set_recurrent_mode`) it runs over sequences of shape ``[*batch, time]``
    with the same results. :meth:`make_tensordict_primer` makes the transform that gives an env the first states.

    Args:
        input_size: the number of features.
        hidden_size: the size of the state.
        num_layers: how many LSTMs, each on top of the other.
        bias: whether there are biases.
        batch_first: must be True.
        dropout: the probability, in training, that an output of a layer below the last is dropped.
        proj_size: the size of the results, if they are projected.
        bidirectional: must be False.
        python_based: make the LSTM of :class:`rlnb.modules.LSTM`, not of torch.
        in_key: the features; the states are "recurrent_state_h" and "recurrent_state_c".
        in_keys: the features and the states, and "is_init" or what it is called.
        out_key: the result; the next states are ("next", "recurrent_state_h") and ("next", "recurrent_state_c").
        out_keys: the result and the next states.
        device: of the parameters.
        lstm: a ``torch.nn.LSTM`` to take, in place of sizes.
        default_recurrent_mode: the mode outside of :class:`~rlnb.modules.set_recurrent_mode`. Default: False.

    Raises:
        TypeError: if a size is no integer, or ``lstm`` no LSTM.
        ValueError: if the keys are too few or too many, or for a network that is not batch first.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> from rlnb.modules import set_recurrent_mode
        >>> net = LSTMModule(input_size=3, hidden_size=4, in_key="observation", out_key="features")
        >>> data = TensorDict({"observation": torch.ones(2, 10, 3), "is_init": torch.zeros(2, 10, 1).bool()}, [2, 10])
        >>> with set_recurrent_mode(True):
        ...     net(data)["features"].shape
        torch.Size([2, 10, 4])
    """

    DEFAULT_IN_KEYS: ClassVar[list[NestedKey]] = ["recurrent_state_h", "recurrent_state_c"]
    DEFAULT_OUT_KEYS: ClassVar[list[NestedKey]] = [("next", "recurrent_state_h"), ("next", "recurrent_state_c")]
    _name = "lstm"
    _torchs = nn.LSTM
    _pythons = LSTM

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        proj_size: int = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: Any = None,
        lstm: nn.LSTM | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        arguments = {"num_layers": num_layers, "bias": bias, "dropout": dropout, "device": device}
        arguments |= {"bidirectional": bidirectional, "proj_size": proj_size, "batch_first": batch_first}
        net = self._make_net(lstm, python_based, (input_size, hidden_size), arguments)
        super().__init__(net, in_key, in_keys, out_key, out_keys, default_recurrent_mode)


__all__ = ["LSTMModule"]
