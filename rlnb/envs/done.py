"""Former home of ``complete_done``; see :mod:`rlnb.envs.end_signals`."""

from rlnb.envs.end_signals import complete_done

__all__ = ["complete_done"]
