"""Every transform around a batch of envs that end at different times."""

from __future__ import annotations

from rlnb.envs import SerialEnv, TransformedEnv, check_env_specs
from tests.envs.transforms.test_every_transform import in_every_env


@in_every_env
def test_around_a_batch_whose_envs_end_at_different_times(case, env):
    """The data that a partial reset is given has been transformed: the batch must not take it for its own."""
    base = SerialEnv(3, lambda: env())
    transformed = TransformedEnv(base, case.make(base))
    check_env_specs(transformed, seed=0)
    transformed.set_seed(0)
    found = transformed.rollout(15, break_when_any_done=False)
    assert found.batch_size == (3, 15)
    ended = [found["next"].get(key) for key in transformed.done_keys if key == "done" or key[-1] == "done"]
    assert any(bool(flags.any()) for flags in ended)
