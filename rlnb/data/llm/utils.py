"""The names of ``torchrl.data.llm.utils``, whose home is ``rlnb.data.rlhf.utils``."""

from rlnb.data.rlhf.utils import *  # noqa: F403 - the list of public names has one home
