"""Conversion of episodes between TED and other layouts, under TorchRL's dotted path."""

from rlnb.data.ted.flat import Flat2TED, TED2Flat
from rlnb.data.ted.nested import H5Combine, H5Split, Nested2TED, TED2Nested

__all__ = ["Flat2TED", "H5Combine", "H5Split", "Nested2TED", "TED2Flat", "TED2Nested"]
