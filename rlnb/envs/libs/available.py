"""Which libraries of environments are installed."""

from __future__ import annotations

from rlnb.envs.libs.gym.backend import GYM_BACKENDS, installed_backends


def get_available_libraries() -> dict[str, bool]:
    """Say which libraries that rlnb takes environments from are installed. None is imported for it.

    Returns:
        By the name of each library, whether it is installed.

    Example:
        >>> get_available_libraries()["gymnasium"]
        True
    """
    installed = installed_backends()
    return {name: name in installed for name in GYM_BACKENDS}


__all__ = ["get_available_libraries"]
