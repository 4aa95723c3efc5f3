"""A batched travelling-salesman environment in the style of routing libraries, decoded by masked policies."""

import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Composite, Unbounded
from rlnb.envs import EnvBase
from rlnb.envs.utils import step_mdp


class TSPEnv(EnvBase):
    """Visit every city once; the reward, the negative length of the tour, comes with the last city."""

    batch_locked = False

    def __init__(self, num_loc=6, device="cpu", **kwargs):
        kwargs.setdefault("run_type_checks", False)
        kwargs.setdefault("allow_done_after_reset", True)
        super().__init__(device=device, batch_size=[], **kwargs)
        self.num_loc = num_loc
        self.observation_spec = Composite(
            locs=Bounded(low=0.0, high=1.0, shape=(num_loc, 2), dtype=torch.float32),
            first_node=Unbounded(shape=(1,), dtype=torch.int64),
            current_node=Unbounded(shape=(1,), dtype=torch.int64),
            i=Unbounded(shape=(1,), dtype=torch.int64),
            action_mask=Unbounded(shape=(num_loc,), dtype=torch.bool),
            shape=(),
        )
        self.action_spec = Bounded(low=0, high=num_loc, shape=(1,), dtype=torch.int64)
        self.reward_spec = Unbounded(shape=(1,))
        self.done_spec = Unbounded(shape=(1,), dtype=torch.bool)

    def _reset(self, td=None, batch_size=None):
        locs = torch.rand(3, self.num_loc, 2) if td is None or "locs" not in td.keys() else td["locs"]
        n = locs.shape[0]
        return TensorDict(
            {
                "locs": locs,
                "first_node": torch.zeros(n, 1, dtype=torch.int64),
                "current_node": torch.zeros(n, 1, dtype=torch.int64),
                "i": torch.zeros(n, 1, dtype=torch.int64),
                "action_mask": torch.ones(n, self.num_loc, dtype=torch.bool),
                "reward": torch.zeros(n, 1),
            },
            batch_size=[n],
        )

    def _step(self, td):
        current = td["action"]
        first = torch.where(td["i"] == 0, current.view_as(td["i"]), td["first_node"])
        mask = td["action_mask"].scatter(-1, current.view(-1, 1), False)
        done = ~mask.any(-1, keepdim=True)
        return TensorDict(
            {
                "locs": td["locs"],
                "first_node": first,
                "current_node": current.view_as(td["i"]),
                "i": td["i"] + 1,
                "action_mask": mask,
                "reward": torch.zeros_like(done, dtype=torch.float32),
                "done": done,
            },
            td.shape,
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def main() -> None:
    torch.manual_seed(0)
    env = TSPEnv()
    td = env.reset(TensorDict({"locs": torch.rand(8, 6, 2)}, batch_size=[8]))
    assert td.shape == (8,)
    tours = []
    while not td["done"].all():
        probs = td["action_mask"].float() / td["action_mask"].sum(-1, keepdim=True)
        td["action"] = torch.multinomial(probs, 1)
        td = env.step(td)["next"]
        tours.append(td["current_node"])
    tour = torch.cat(tours, -1)
    assert (tour.sort(-1).values == torch.arange(6)).all()
    ordered = td["locs"].gather(1, tour.unsqueeze(-1).expand(-1, -1, 2))
    length = (ordered - ordered.roll(-1, 1)).norm(dim=-1).sum(-1)
    assert length.shape == (8,) and (length > 0).all()
    again = env.step(env.reset().set("action", torch.tensor([[1], [2], [3]])))
    assert step_mdp(again)["i"].tolist() == [[1], [1], [1]]


if __name__ == "__main__":
    main()
