"""Recurrent modules: policies and values with a memory."""

from rlnb.envs.recurrent_mode import recurrent_mode, set_recurrent_mode
from rlnb.modules.recurrent.cells import GRU, LSTM, GRUCell, LSTMCell
from rlnb.modules.recurrent.gru import GRUModule
from rlnb.modules.recurrent.lstm import LSTMModule

__all__ = [
    "GRU", "LSTM", "GRUCell", "GRUModule", "LSTMCell", "LSTMModule", "recurrent_mode", "set_recurrent_mode",
]  # fmt: skip
