"""The names of ``torchrl.data.llm`` that concern preference data, whose home is ``rlnb.data.rlhf``."""

from rlnb.data.rlhf import *  # noqa: F403 - the list of public names has one home
