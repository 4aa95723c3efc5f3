"""What is stored: specs of data."""

from rlnb.data import specs
from rlnb.data.specs import *  # noqa: F403 - the list of public names has one home, specs.__all__

__all__ = [*specs.__all__]
