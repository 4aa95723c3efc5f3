"""Conversion of episodes between TED and other layouts, under TorchRL's dotted path."""

from rlnb.data.ted import Flat2TED, H5Combine, H5Split, Nested2TED, TED2Flat, TED2Nested

__all__ = ["Flat2TED", "H5Combine", "H5Split", "Nested2TED", "TED2Flat", "TED2Nested"]
