"""Former home of the error texts of environments; see :mod:`rlnb.envs.errors`."""

from rlnb.envs.errors import (
    no_action,
    no_tensordict,
    not_reset,
    policy_name,
    policy_returned,
    policy_wrote_no_action,
)
from rlnb.envs.validation import fit_action as check_action

__all__ = [
    "check_action",
    "no_action",
    "no_tensordict",
    "not_reset",
    "policy_name",
    "policy_returned",
    "policy_wrote_no_action",
]
