"""VecNorm: the statistics, which steps count, sharing, copies."""

from __future__ import annotations

import copy
import re

import pytest
import torch
import torch.multiprocessing as mp
from tensordict import TensorDict

from rlnb.envs import (
    CartPoleEnv,
    Compose,
    GymEnv,
    ObservationNorm,
    SerialEnv,
    TransformedEnv,
    VecNorm,
    check_env_specs,
)
from tests.envs.transforms.cases import Agents, Numbers


def feed(norm, *values):
    """Let values count one after the other, and return the results."""
    return torch.stack([norm(TensorDict({"x": torch.as_tensor(value)}))["x"] for value in values])


def test_running_mean_and_deviation():
    values = torch.tensor([[1.0], [2.0], [5.0], [10.0]])
    out = feed(VecNorm(["x"], decay=1.0, eps=1e-8), *values)
    for t in range(1, 4):
        seen = values[: t + 1]
        expected = (values[t] - seen.mean(0)) / seen.std(0, correction=0)
        torch.testing.assert_close(out[t], expected)
    assert out[0] == 0


def test_statistics_begun_in_inference_mode_go_on_outside_of_it():
    norm, values = VecNorm(["x"], decay=1.0), ([1.0], [2.0], [5.0])
    with torch.inference_mode():
        feed(norm, *values[:2])
    feed(norm, values[2])
    assert norm.loc["x"].item() == pytest.approx(8 / 3)


def test_statistics_change_while_the_lock_is_held():
    class Lock:
        seen = ()

        def __enter__(self):
            self.before = norm.x_count.item()

        def __exit__(self, *error):
            self.seen += ((self.before, norm.x_count.item()),)

    lock = Lock()
    norm = VecNorm(["x"], lock=lock, decay=1.0, shapes=[(1,)])
    feed(norm, [1.0], [2.0])
    assert lock.seen == ((0, 1), (1, 2))


def test_the_past_decays():
    norm = VecNorm(["x"], decay=0.5)
    feed(norm, [1.0], [2.0], [5.0], [10.0])
    weights = torch.tensor([0.125, 0.25, 0.5, 1.0])
    values = torch.tensor([1.0, 2.0, 5.0, 10.0])
    mean = (weights * values).sum() / weights.sum()
    deviation = ((weights * values.square()).sum() / weights.sum() - mean**2).sqrt()
    torch.testing.assert_close(norm.loc["x"], mean[None])
    torch.testing.assert_close(norm.scale["x"], deviation[None])
    assert norm.standard_normal


def test_eps_is_the_least_variance():
    norm = VecNorm(["x"], decay=1.0, eps=0.25)
    assert feed(norm, [0.0], [0.1]).flatten().tolist() == pytest.approx([0.0, 0.1])
    assert norm.scale["x"].item() == 0.5


def test_a_batch_counts_each_of_its_rows():
    norm = VecNorm(["x"], decay=1.0)
    batch = torch.rand(5, 7, 3)
    out = norm(TensorDict({"x": batch.clone()}, [5, 7]))["x"]
    torch.testing.assert_close(norm.loc["x"], batch.mean((0, 1)))
    torch.testing.assert_close(norm.scale["x"], batch.std((0, 1), correction=0))
    torch.testing.assert_close(out.mean((0, 1)), torch.zeros(3), atol=1e-5, rtol=0)
    assert norm._statistics("x")[2].item() == 35


def test_only_rows_that_are_reset_count():
    norm = VecNorm(["position"], decay=1.0)
    env = TransformedEnv(Numbers((4,)), norm)
    td = env.reset()
    assert norm._statistics("position")[2].item() == 4
    before = [part.clone() for part in norm._statistics("position")]
    kept = td.clone()
    td["_reset"] = torch.tensor([[True], [False], [True], [False]])
    out = env.reset(td)
    assert norm._statistics("position")[2].item() == 6
    raw = env.base_env.position
    torch.testing.assert_close(norm._statistics("position")[0], before[0] + raw[0] + raw[2])
    assert torch.equal(out["position"][[1, 3]], kept["position"][[1, 3]])


def test_nested_partial_resets_count_by_the_mask_at_the_root():
    norm = VecNorm([("agents", "reward"), "position"], decay=1.0)
    env = TransformedEnv(Agents((2,)), norm)
    env.rollout(3, break_when_any_done=False)
    assert norm._statistics("position")[0].shape == (2,)
    assert norm._statistics(("agents", "reward"))[0].shape == (3, 1)


def test_specs_and_checks():
    env = TransformedEnv(GymEnv("Pendulum-v1"), VecNorm())
    assert env.observation_spec["observation"].domain == "continuous"
    assert not hasattr(env.observation_spec["observation"], "low")
    check_env_specs(env)
    assert env.rollout(3)["next", "reward"].shape == (3, 1)


def test_clones_share_their_statistics_and_copies_do_not():
    norm = VecNorm(["x"])
    feed(norm, [1.0], [2.0])
    clone, copied = norm.clone(), copy.deepcopy(norm)
    feed(clone, [9.0])
    assert norm.loc["x"] == clone.loc["x"] > copied.loc["x"]


def test_freezing():
    norm = VecNorm(["x"])
    feed(norm, [1.0], [2.0])
    frozen, mean = norm.frozen_copy(), norm.loc["x"].clone()
    assert frozen.frozen and not norm.frozen and frozen.parent is None
    feed(frozen, [50.0])
    feed(norm, [9.0])
    assert torch.equal(frozen.loc["x"], mean) and norm.loc["x"] > mean
    assert norm.freeze() is norm
    mean = norm.loc["x"].clone()
    feed(norm, [90.0])
    assert torch.equal(norm.loc["x"], mean)
    feed(norm.unfreeze(), [90.0])
    assert norm.loc["x"] > mean


def test_to_observation_norm():
    norm = VecNorm(["x"], ["y"])
    feed_out = [norm(TensorDict({"x": torch.tensor([value])})) for value in (1.0, 4.0, 6.0)]
    static = norm.to_observation_norm()
    assert isinstance(static, ObservationNorm) and static.out_keys == ["y"]
    torch.testing.assert_close(static(TensorDict({"x": torch.tensor([6.0])}))["y"], feed_out[-1]["y"])
    both = VecNorm(["x", "z"]).to_observation_norm()
    assert isinstance(both, Compose) and [part.in_keys for part in both] == [["x"], ["z"]]
    td = TensorDict({"x": torch.ones(1), "z": torch.ones(1)})
    assert both(td)["z"] == 1


def test_denorm():
    norm = VecNorm(["x"])
    feed(norm, [1.0], [2.0], [7.0])
    out = norm.freeze()(TensorDict({"x": torch.tensor([3.0])}))
    torch.testing.assert_close(norm.denorm(out)["x"], torch.tensor([3.0]))
    assert out["x"] != 3.0


def test_state_dict():
    norm = VecNorm([("a", "x"), "y"])
    norm(TensorDict({"a": {"x": torch.ones(2)}, "y": torch.full((1,), 5.0)}))
    other = VecNorm([("a", "x"), "y"])
    other.load_state_dict(norm.state_dict())
    assert other.loc["y"] == 5 and torch.equal(other.loc["a", "x"], torch.ones(2))


# Sharing ------------------------------------------------------------------------------------------------------------


def count_up(shared, lock, value):
    """Let a value count a hundred times, in another process."""
    norm = VecNorm(["x"], shared_td=shared, lock=lock, decay=1.0)
    feed(norm, *[[value]] * 100)


@pytest.mark.parametrize("method", [mp.get_all_start_methods()[0], pytest.param("spawn", marks=pytest.mark.deep)])
def test_processes_share_statistics(method):
    context = mp.get_context(method)
    lock = context.Lock()
    shared = TensorDict({"x_sum": torch.zeros(1), "x_ssq": torch.zeros(1), "x_count": torch.zeros(1)}).share_memory_()
    workers = [context.Process(target=count_up, args=(shared, lock, value)) for value in (1.0, 3.0)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    norm = VecNorm(["x"], shared_td=shared, lock=lock)
    assert norm._statistics("x")[2].item() == 200
    assert (norm.loc["x"].item(), norm.scale["x"].item()) == (2.0, 1.0)


def test_statistics_are_changed_in_place():
    """What is put in the place of a buffer, such as a tensor in shared memory, is what counts from then on."""
    norm = VecNorm(["observation"], decay=1.0)
    env = TransformedEnv(GymEnv("Pendulum-v1"), norm)
    buffers = dict(norm.named_buffers())
    assert set(buffers) == {"observation_sum", "observation_ssq", "observation_count"}
    shared = {name: value.clone().share_memory_() for name, value in buffers.items()}
    for name, value in shared.items():
        norm._buffers[name] = value
    env.rollout(5)
    assert norm._buffers["observation_count"] is shared["observation_count"]
    assert shared["observation_count"].item() == 6
    assert buffers["observation_count"].item() == 0


def test_envs_of_a_batch_share_statistics():
    shared = VecNorm.build_td_for_shared_vecnorm(GymEnv("Pendulum-v1"), ["observation"])
    assert shared.is_shared()

    def make():
        return TransformedEnv(GymEnv("Pendulum-v1"), VecNorm(["observation"], shared_td=shared, decay=1.0))

    env = SerialEnv(3, make)
    env.rollout(4)
    assert shared["observation_count"].item() == 3 * 5


def test_shared_statistics_in_files(tmp_path):
    found = VecNorm.build_td_for_shared_vecnorm(TransformedEnv(CartPoleEnv(batch_size=[3])), memmap=True)
    assert found.is_memmap() and found["observation_sum"].shape == (4,) and found["reward_count"].shape == (1,)


# Bad input ----------------------------------------------------------------------------------------------------------


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def test_bad_input():
    with message(ValueError, "decay must be a discount factor from 0 to 1, got 1.5."):
        VecNorm(decay=1.5)
    with message(ValueError, "eps must be positive, the minimum variance to divide by, got 0."):
        VecNorm(eps=0)
    with pytest.raises(KeyError, match="x_ssq"):
        VecNorm(["x"], shared_td=TensorDict({"x_sum": torch.zeros(1)}))
    norm = VecNorm(["x"])
    feed(norm, [1.0])
    with message(
        ValueError,
        "VecNorm has statistics of 'x' for features of shape (1,), and the entry has features of shape (2,). "
        "Fix: make a new VecNorm.",
    ):
        feed(norm, [1.0, 2.0])
    text = (
        "VecNorm normalizes floating-point numbers, and 'x' is of type torch.int64. Fix: cast it first, "
        "DTypeCastTransform(dtype, torch.float32, in_keys=['x']), or leave it out of in_keys."
    )
    with message(TypeError, text):
        feed(norm, [1])
    assert norm._statistics("x")[2].item() == 1
    with message(TypeError, text.replace("'x'", "'observation'")):
        TransformedEnv(GymEnv("FrozenLake-v1"), VecNorm(["observation"]))
    with pytest.raises(KeyError, match="nothing"):
        TransformedEnv(CartPoleEnv(), VecNorm(["nothing"])).rollout(2)
