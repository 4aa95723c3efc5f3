"""Recurrent modules over TensorDicts: GRU and LSTM, step by step or over whole sequences."""

from rlnb.envs.recurrent_mode import recurrent_mode, set_recurrent_mode
from rlnb.modules.recurrent.cells import GRU, LSTM, GRUCell, LSTMCell
from rlnb.modules.recurrent.module import GRUModule, LSTMModule

__all__ = [
    "GRU", "LSTM", "GRUCell", "GRUModule", "LSTMCell", "LSTMModule", "recurrent_mode", "set_recurrent_mode",
]  # fmt: skip
