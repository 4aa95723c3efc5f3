"""The names of ``torchrl.data.llm.prompt``, whose home is ``rlnb.data.rlhf.prompt``."""

from rlnb.data.rlhf.prompt import *  # noqa: F403 - the list of public names has one home
