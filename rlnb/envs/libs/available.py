"""Detection of installed libraries of environments."""

from __future__ import annotations

from rlnb.envs.libs.gym.backend import GYM_BACKENDS, installed_backends


def get_available_libraries() -> dict[str, bool]:
    """Check which libraries of environments are installed, without importing them.

    Returns:
        Whether each library is installed, by name.

    Example:
        >>> get_available_libraries()["gymnasium"]
        True
    """
    installed = installed_backends()
    return {name: name in installed for name in GYM_BACKENDS}
