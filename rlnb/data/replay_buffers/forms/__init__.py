"""Forms: how data is taken apart into leaves, and put together again."""

from rlnb.data.replay_buffers.forms.base import Form, Leaf
from rlnb.data.replay_buffers.forms.tensordict_form import TensorDictForm
from rlnb.data.replay_buffers.forms.tree_form import TensorForm, TreeForm, form_from, form_of, is_data

__all__ = ["Form", "Leaf", "TensorDictForm", "TensorForm", "TreeForm", "form_from", "form_of", "is_data"]
