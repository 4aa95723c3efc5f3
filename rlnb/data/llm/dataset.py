"""The names of ``torchrl.data.llm.dataset``, whose home is ``rlnb.data.rlhf.dataset``."""

from rlnb.data.rlhf.dataset import *  # noqa: F403 - the list of public names has one home
