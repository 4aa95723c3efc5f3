"""Every transform around a batch of envs that end at different times."""

from __future__ import annotations

from rlnb.envs import SerialEnv, TransformedEnv, check_env_specs
from tests.envs.transforms.test_every_transform import FIRST, in_envs


@in_envs(of=FIRST)
def test_around_a_batch_whose_envs_end_at_different_times(case, env):
    """The data that a partial reset is given has been transformed: the batch must not take it for its own."""
    base = SerialEnv(2, lambda: env())
    transformed = TransformedEnv(base, case.make(base))
    check_env_specs(transformed, seed=0)
    transformed.set_seed(0)
    found = transformed.rollout(10, break_when_any_done=False)
    assert found.batch_size == (2, 10)
    ended = [found["next"].get(key) for key in transformed.done_keys if key == "done" or key[-1] == "done"]
    assert any(bool((flags.flatten(2).any(-1).sum(0) == 1).any()) for flags in ended), "one ends, the other goes on"
