"""LSTM module that reads and writes entries of a TensorDict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from rlnb.data.ted.keys import NestedKey
from rlnb.modules.recurrent.cells import LSTM
from rlnb.modules.recurrent.module import RecurrentModule


class LSTMModule(RecurrentModule):
    """An LSTM that reads and writes entries of a TensorDict.

    The next state is written under "next", so the next step finds it at the root. The state is reset to zeros where
    "is_init" is True, an entry that :class:`~rlnb.envs.InitTracker` writes. By default the data is a batch of single
    steps, ``[*batch]``; in recurrent mode (see :class:`~rlnb.modules.set_recurrent_mode`) it is a batch of sequences,
    ``[*batch, time]``, with the same results. :meth:`make_tensordict_primer` makes the transform that adds the initial
    states to the data of an env.

    Args:
        input_size: number of features.
        hidden_size: size of the state.
        num_layers: number of stacked LSTMs.
        bias: whether to use biases.
        batch_first: must be True.
        dropout: dropout probability of the outputs of all layers but the last, in training.
        proj_size: size of the output if it is projected. 0: no projection.
        bidirectional: must be False.
        python_based: whether to use :class:`rlnb.modules.LSTM` instead of ``torch.nn.LSTM``.
        in_key: key of the features; the keys of the states are then "recurrent_state_h" and "recurrent_state_c".
        in_keys: keys of the features and of the states, and optionally the key of "is_init".
        out_key: key of the output; the keys of the next states are then those of the states under "next".
        out_keys: keys of the output and of the next states.
        device: device of the parameters.
        lstm: a ``torch.nn.LSTM`` to use, instead of sizes.
        default_recurrent_mode: the mode outside of :class:`~rlnb.modules.set_recurrent_mode`. None: False.

    Raises:
        TypeError: If a size is not an integer, or ``lstm`` is not a ``torch.nn.LSTM``.
        ValueError: If there are too few or too many keys, or the network is not batch-first or is bidirectional.

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
    _torch_class = nn.LSTM
    _python_class = LSTM

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
