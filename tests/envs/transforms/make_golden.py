"""Results of transforms on fixed data under one library, as JSON: python make_golden.py torchrl > golden.json."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import torch
from tensordict import TensorDict


def count_env(package: str) -> type:
    """An env whose observation and reward count the steps; five steps an episode."""
    envs, data = (importlib.import_module(f"{package}.{name}") for name in ("envs", "data"))

    class Count(envs.EnvBase):
        def __init__(self) -> None:
            super().__init__()
            self.observation_spec = data.Composite(observation=data.Bounded(-100.0, 100.0, (2,)))
            self.action_spec = data.Bounded(-1.0, 1.0, (2,))
            self.reward_spec = data.Unbounded((1,))
            self.count = torch.zeros(1)

        def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
            self.count = torch.zeros(1)
            return TensorDict({"observation": self.count.repeat(2)})

        def _step(self, tensordict: Any) -> TensorDict:
            self.count = self.count + 1
            end = self.count >= 5
            found = {"observation": self.count + tensordict["action"], "reward": self.count - 2}
            return TensorDict({**found, "done": end, "terminated": end.clone()})

        def _set_seed(self, seed: Any) -> None:
            pass

    return Count


def transforms(package: str) -> dict[str, Any]:
    """The transforms, by name."""
    t, data = importlib.import_module(f"{package}.envs.transforms"), importlib.import_module(f"{package}.data")
    obs, act = {"in_keys": ["observation"]}, {"in_keys_inv": ["action"], "out_keys_inv": ["action"]}
    both = {"in_keys": ["observation", ("next", "observation")], "out_keys": ["cat", ("next", "cat")]}
    return {
        "norm": lambda: t.ObservationNorm(1.0, 2.0, **obs),
        "norm, standard": lambda: t.ObservationNorm(1.0, 2.0, standard_normal=True, **obs, **act),
        "clip": lambda: t.ClipTransform(**obs, low=0.5, high=3.0),
        "sign": lambda: t.SignTransform(**obs),
        "cast": lambda: t.DTypeCastTransform(torch.float32, torch.float64, **obs),
        "scaling": lambda: t.RewardScaling(1.0, 2.0),
        "scaling, standard": lambda: t.RewardScaling(1.0, 2.0, standard_normal=True),
        "reward clipping": lambda: t.RewardClipping(0.0, 1.0),
        "binarize": lambda: t.BinarizeReward(),
        "sum": lambda: t.RewardSum(),
        "target": lambda: t.TargetReturn(10.0),
        "target, constant": lambda: t.TargetReturn(10.0, mode="constant"),
        "counter": lambda: t.StepCounter(3),
        "counters": lambda: t.Compose(t.StepCounter(4), t.StepCounter(2)),
        "tracker": lambda: t.InitTracker(),
        "frames": lambda: t.CatFrames(3, -1, **obs),
        "frames, constant": lambda: t.CatFrames(3, -1, **obs, padding="constant", padding_value=9.0),
        "frames of rollouts": lambda: t.CatFrames(3, -1, **both),
        "frames ahead": lambda: t.CatFrames(3, -1, **obs, out_keys=["cat"], future=True, mask_key="padded"),
        "pool": lambda: t.TimeMaxPool(["observation"], T=2),
        "unsqueeze": lambda: t.UnsqueezeTransform(-1, **obs, out_keys=["observation"]),
        "flatten": lambda: t.Compose(
            t.UnsqueezeTransform(-1, **obs, out_keys=["observation"]), t.FlattenObservation(-2, -1, **obs)
        ),
        "cat": lambda: t.Compose(
            t.RenameTransform(["observation"], ["o"], create_copy=True), t.CatTensors(["observation", "o"], out_key="v")
        ),
        "rename": lambda: t.RenameTransform(["observation"], ["o"], ["action"], ["act"]),
        "exclude": lambda: t.Compose(t.StepCounter(), t.ExcludeTransform("observation")),
        "select": lambda: t.Compose(t.StepCounter(), t.SelectTransform("observation")),
        "primer": lambda: t.TensorDictPrimer(h=data.Unbounded((2,)), default_value=3.0),
        "skip": lambda: t.FrameSkipTransform(2),
        "reward to go": lambda: t.Reward2GoTransform(gamma=0.5),
        "steps": lambda: t.MultiStepTransform(n_steps=2, gamma=0.5),
    }


def plain(data: Any) -> dict[str, Any]:
    """The entries of a TensorDict, by their keys joined by dots."""
    found = {}
    for key, value in data.items(True, True):
        found[".".join(key) if isinstance(key, tuple) else key] = [str(value.dtype), value.tolist()]
    return dict(sorted(found.items()))


def specs(env: Any) -> dict[str, Any]:
    """Shape and dtype of the env's specs."""
    found = {}
    for name in ("full_observation_spec", "full_reward_spec", "full_action_spec"):
        spec = getattr(env, name)
        for key in spec.keys(True, True):
            found[f"{name}.{key}"] = [list(spec[key].shape), str(spec[key].dtype)]
    return dict(sorted(found.items()))


def sample() -> TensorDict:
    """A rollout of two episodes."""
    x = torch.arange(1.0, 7).reshape(6, 1).repeat(1, 2)
    done = torch.tensor([0, 0, 1, 0, 0, 1]).bool().reshape(6, 1)
    after = {"observation": x + 1, "reward": x[:, :1] - 3, "done": done, "terminated": done.clone()}
    return TensorDict({"observation": x, "action": x / 10, "next": after}, [6], names=["time"])


def results(package: str) -> dict[str, Any]:
    """All that the transforms make; what a library refuses is missing."""
    envs, count = importlib.import_module(f"{package}.envs"), count_env(package)
    found: dict[str, Any] = {}
    for name, make in transforms(package).items():

        def rollout(make: Any = make) -> Any:
            env = envs.TransformedEnv(count(), make())
            key = "act" if "act" in list(env.full_action_spec) else "action"
            policy = lambda td: td.set(key, torch.tensor([0.5, -0.5]))  # noqa: E731  # one line is all there is to it
            return {"specs": specs(env), "data": plain(env.rollout(8, policy, break_when_any_done=False))}

        uses = {
            "env": rollout,
            "forward": lambda make=make: plain(make()(sample())),
            "inverse": lambda make=make: plain(make().inv(sample())),
        }
        for use, run in uses.items():
            try:
                found[f"{name}, {use}"] = run()
            except Exception:  # each library refuses in its own words, and the other may do better
                continue
    return found


if __name__ == "__main__":
    json.dump(results(sys.argv[1]), sys.stdout, indent=None, sort_keys=True)
