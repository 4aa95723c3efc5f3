"""The names of ``torchrl.data.llm.reward``, whose home is ``rlnb.data.rlhf.reward``."""

from rlnb.data.rlhf.reward import *  # noqa: F403 - the list of public names has one home
