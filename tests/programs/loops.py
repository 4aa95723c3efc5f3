"""Loops by hand: step, step_mdp, step_and_maybe_reset, and masks of partial resets."""

import torch

from rlnb.envs import GymEnv, SerialEnv, StepCounter, TransformedEnv, step_mdp
from rlnb.modules import RandomPolicy


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=7))
    env.set_seed(0)
    policy = RandomPolicy(env.action_spec)
    td, steps = env.reset(), 0
    while True:
        td = env.step(policy(td))
        steps += 1
        if td["next", "done"].any():
            break
        td = step_mdp(td)
    assert steps == int(td["next", "step_count"])

    batch = SerialEnv(3, lambda: TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=4)))
    batch.set_seed(0)
    td = batch.reset()
    counts = []
    for _ in range(10):
        td, after = batch.step_and_maybe_reset(batch.rand_action(td))
        counts.append(after["step_count"].flatten())
        assert not (after["done"]).any()
        assert (
            td["next", "step_count"].flatten()[~td["next", "done"].flatten()]
            == counts[-1][~td["next", "done"].flatten()]
        ).all()
        td = after
    assert torch.stack(counts).max() == 3
    mask = torch.tensor([[True], [False], [True]])
    before = td["observation"].clone()
    partly = batch.reset(td.clone().set("_reset", mask))
    assert (partly["observation"][1] == before[1]).all()
    assert partly["step_count"].flatten()[mask.flatten()].sum() == 0
    assert "_reset" not in partly.keys()
    batch.close()


if __name__ == "__main__":
    main()
