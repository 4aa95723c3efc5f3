"""Trains one agent on CartPole-v1 with one library, on one thread; prints JSON: its speed, and what solving it took.

The programs for rlnb and TorchRL are the same text, the loop that a learner writes. All libraries get the same
networks, the same optimizer, and the same numbers of steps, batches and epochs, and all agents are judged by the same
function: greedy episodes between two batches, whose time is not counted. After each batch the program waits for a line,
so that the programs of several libraries can take turns: the clock of a shared machine is never the same for long.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

PARTS = ("collectors", "data", "envs", "modules", "objectives")
ENV, SOLVED, EPISODES = "CartPole-v1", 475.0, 20
LIMIT = {"ppo": 100_000, "dqn": 60_000}  # frames after which a run that was to solve it gives up
PPO = {"batch": 1024, "minibatch": 64, "epochs": 10, "lr": 1e-3, "gamma": 0.99, "lmbda": 0.95, "clip": 0.2, "norm": 0.5}
DQN = {"batch": 256, "minibatch": 64, "updates": 128, "lr": 1e-3, "gamma": 0.99, "capacity": 50_000, "first": 1024}
DQN |= {"eps": 0.04, "annealed": 4_000, "norm": 10.0}
ADAM: dict[str, bool] = {}  # further options; fused, it is a tenth of an update with these networks, and else a fifth


def network(outputs: int, activation: type[nn.Module], gain: float | None = None) -> nn.Sequential:
    """Make a network of 4-64-64-outputs; with a gain of its last layer, weights are orthogonal, as is usual for PPO."""
    layers = [nn.Linear(4, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, outputs)]
    if gain is not None:
        for layer, size in zip(layers[::2], (math.sqrt(2), math.sqrt(2), gain), strict=True):
            nn.init.orthogonal_(layer.weight, size)  # type: ignore[arg-type]  # a linear layer
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return nn.Sequential(*layers)


class Watch:
    """Measures the CPU time of training, without that of its greedy episodes, and stops a run that is over.

    Args:
        frames: steps to take. None: until CartPole is solved.
        algorithm: "ppo" or "dqn".
        seed: of the greedy episodes.
    """

    def __init__(self, frames: int | None, algorithm: str, seed: int) -> None:
        self.limit, self.judges, self.seed = frames or LIMIT[algorithm], frames is None, seed
        self.frames, self.aside, self.solved = 0, 0.0, False
        self.envs = gymnasium.make_vec(ENV, num_envs=EPISODES, vectorization_mode="vector_entry_point")
        self.start = 0.0

    def begin(self) -> None:
        """Start the clock, after imports and the making of networks."""
        wait_for_turn()
        self.start = time.process_time()

    def done(self, frames: int, act: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """Count the frames of a batch that was learned from; return whether training is over.

        Args:
            frames: how many.
            act: maps observations ``[n, 4]`` to scores of the actions ``[n, 2]``.
        """
        self.frames += frames
        before = time.process_time()
        self.solved = self.judges and self._mean_return(act) >= SOLVED
        self.aside += time.process_time() - before
        if self.solved or self.frames >= self.limit:
            return True
        wait_for_turn()
        return False

    def report(self) -> dict[str, float | None]:
        """Frames a second of CPU time; the seconds and frames to a mean return of 475, None if it was not reached."""
        seconds = time.process_time() - self.start - self.aside
        reached = self.solved or None
        return {
            "fps": self.frames / seconds,
            "seconds": reached and seconds,
            "frames": reached and self.frames,
        }

    @torch.no_grad()
    def _mean_return(self, act: Callable[[torch.Tensor], torch.Tensor]) -> float:
        observation, _ = self.envs.reset(seed=self.seed)
        alive, total = np.ones(EPISODES, bool), 0
        while alive.any():
            action = act(torch.as_tensor(observation)).argmax(-1).numpy()
            observation, _, terminated, truncated, _ = self.envs.step(action)
            total += int(alive.sum())
            alive &= ~(terminated | truncated)
        return total / EPISODES


def wait_for_turn() -> None:
    """Say that a batch is done, and wait until the next one may begin."""
    print("done", flush=True)
    sys.stdin.readline()


def ppo(package: str, seed: int, watch: Watch) -> None:
    """PPO with rlnb or TorchRL."""
    from tensordict.nn import TensorDictModule

    collectors, data, envs, modules, objectives = parts(package)
    env = envs.GymEnv(ENV, categorical_action_encoding=True)
    env.set_seed(seed)
    policy = network(2, nn.Tanh, 0.01)
    actor = modules.ProbabilisticActor(
        TensorDictModule(policy, ["observation"], ["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = modules.ValueOperator(network(1, nn.Tanh, 1.0), in_keys=["observation"])
    collector = collectors.Collector(env, actor, frames_per_batch=PPO["batch"], total_frames=-1)
    buffer = data.TensorDictReplayBuffer(
        storage=data.LazyTensorStorage(PPO["batch"]),
        sampler=data.SamplerWithoutReplacement(),
        batch_size=PPO["minibatch"],
    )
    advantage = objectives.value.GAE(gamma=PPO["gamma"], lmbda=PPO["lmbda"], value_network=critic)
    loss = objectives.ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=PPO["clip"],
        entropy_coeff=0.0,
        critic_coeff=0.5,
        loss_critic_type="l2",
        normalize_advantage=True,
        log_explained_variance=False,  # stable-baselines3 computes it once for a batch, not for each minibatch
    )
    parameters = list(loss.parameters())  # looking for them at each update takes time
    optimizer = torch.optim.Adam(parameters, lr=PPO["lr"], eps=1e-5, **ADAM)
    watch.begin()
    for batch in collector:
        buffer.extend(advantage(batch))
        for _ in range(PPO["epochs"]):
            for minibatch in buffer:
                terms = loss(minibatch)
                total = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]
                optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(parameters, PPO["norm"])
                optimizer.step()
        collector.update_policy_weights_()
        if watch.done(batch.numel(), policy):
            return


def dqn(package: str, seed: int, watch: Watch) -> None:
    """DQN with rlnb or TorchRL."""
    from tensordict.nn import TensorDictSequential

    collectors, data, envs, modules, objectives = parts(package)
    env = envs.GymEnv(ENV, categorical_action_encoding=True)
    env.set_seed(seed)
    net = network(2, nn.ReLU)
    values = modules.QValueActor(net, spec=env.action_spec)
    explore = modules.EGreedyModule(
        env.action_spec, eps_init=1.0, eps_end=DQN["eps"], annealing_num_steps=DQN["annealed"]
    )
    collector = collectors.Collector(
        env, TensorDictSequential(values, explore), frames_per_batch=DQN["batch"], total_frames=-1
    )
    buffer = data.TensorDictReplayBuffer(storage=data.LazyTensorStorage(DQN["capacity"]), batch_size=DQN["minibatch"])
    loss = objectives.DQNLoss(values, loss_function="smooth_l1", delay_value=True, action_space=env.action_spec)
    loss.make_value_estimator(gamma=DQN["gamma"])
    target = objectives.HardUpdate(loss, value_network_update_interval=DQN["updates"])
    parameters = list(loss.parameters())
    optimizer = torch.optim.Adam(parameters, lr=DQN["lr"], **ADAM)
    watch.begin()
    for batch in collector:
        buffer.extend(batch)
        explore.step(batch.numel())
        for _ in range(DQN["updates"] if len(buffer) > DQN["first"] else 0):
            value = loss(buffer.sample())["loss"]
            optimizer.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(parameters, DQN["norm"])
            optimizer.step()
            target.step()
        if watch.done(batch.numel(), net):
            return


def parts(package: str) -> list[Any]:
    """Import what both programs need: collectors, data, envs, modules and objectives of rlnb or TorchRL."""
    importlib.import_module(f"{package}.objectives.value")
    return [importlib.import_module(f"{package}.{name}") for name in PARTS]


def plain_ppo(seed: int, watch: Watch) -> None:
    """PPO with torch and Gymnasium alone, and no other numbers than it needs: what no library can be faster than."""
    env = gymnasium.make(ENV)
    policy, critic = network(2, nn.Tanh, 0.01), network(1, nn.Tanh, 1.0)
    parameters = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=PPO["lr"], eps=1e-5, **ADAM)
    count, low, high = int(PPO["batch"]), 1 - PPO["clip"], 1 + PPO["clip"]
    now, _ = env.reset(seed=seed)
    watch.begin()
    while True:
        observation, after = torch.empty(count, 4), torch.empty(count, 4)
        action, log_prob = torch.empty(count, 1, dtype=torch.int64), torch.empty(count, 1)
        reward, ends = np.empty(count, np.float32), np.empty((count, 2), bool)
        with torch.no_grad():
            for t in range(count):
                observation[t] = torch.from_numpy(now)
                log_probs = policy(observation[t]).log_softmax(-1)
                action[t] = torch.multinomial(log_probs.exp(), 1)
                log_prob[t] = log_probs[action[t]]
                now, reward[t], *ends[t], _ = env.step(action[t].item())
                after[t] = torch.from_numpy(now)
                if ends[t].any():
                    now, _ = env.reset()
            value, next_value = critic(observation), critic(after)
            delta = reward + PPO["gamma"] * next_value[:, 0].numpy() * ~ends[:, 0] - value[:, 0].numpy()
            advantage = np.empty((count, 1), np.float32)
            last = 0.0
            for t in reversed(range(count)):
                advantage[t] = last = delta[t] + (0 if ends[t].any() else PPO["gamma"] * PPO["lmbda"] * last)
        target = value + torch.from_numpy(advantage)
        columns = observation, action, log_prob, torch.from_numpy(advantage), target
        for _ in range(int(PPO["epochs"])):
            for index in torch.randperm(count).split(int(PPO["minibatch"])):
                seen, acted, before, gain, wanted = (column[index] for column in columns)
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                log_probs = policy(seen).log_softmax(-1)
                ratio = (log_probs.gather(-1, acted) - before).exp()
                objective = torch.min(ratio * gain, ratio.clamp(low, high) * gain).mean()
                entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
                total = 0.5 * nn.functional.mse_loss(critic(seen), wanted) - objective - 0.0 * entropy
                optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(parameters, PPO["norm"])
                optimizer.step()
        if watch.done(count, policy):
            return


def plain_dqn(seed: int, watch: Watch) -> None:
    """DQN with torch and Gymnasium alone, and no other numbers than it needs."""
    env, net, target = gymnasium.make(ENV), network(2, nn.ReLU), network(2, nn.ReLU)
    target.load_state_dict(net.state_dict())
    parameters = list(net.parameters())
    optimizer = torch.optim.Adam(parameters, lr=DQN["lr"], **ADAM)
    capacity, count = int(DQN["capacity"]), int(DQN["batch"])
    observation, after = torch.empty(capacity, 4), torch.empty(capacity, 4)
    action = torch.empty(capacity, 1, dtype=torch.int64)
    reward, terminated = torch.empty(capacity, 1), torch.empty(capacity, 1, dtype=torch.bool)
    columns = observation, action, reward, after, terminated
    random, steps = np.random.default_rng(seed), 0
    now, _ = env.reset(seed=seed)
    watch.begin()
    while True:
        epsilon = max(DQN["eps"], 1 - (1 - DQN["eps"]) * steps / DQN["annealed"])
        for _ in range(count):
            row, steps = steps % capacity, steps + 1
            observation[row] = torch.from_numpy(now)
            with torch.no_grad():
                best = net(observation[row]).argmax()
            action[row] = best if random.random() >= epsilon else int(random.integers(2))
            now, earned, over, cut, _ = env.step(action[row].item())
            after[row], reward[row], terminated[row] = torch.from_numpy(now), float(earned), over
            if over or cut:
                now, _ = env.reset()
        for _ in range(int(DQN["updates"]) if steps > DQN["first"] else 0):
            index = torch.randint(min(steps, capacity), (int(DQN["minibatch"]),))
            seen, acted, earned, following, over = (column[index] for column in columns)
            with torch.no_grad():
                wanted = earned + DQN["gamma"] * target(following).max(-1, keepdim=True).values * ~over
            loss = nn.functional.smooth_l1_loss(net(seen).gather(-1, acted), wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, DQN["norm"])
            optimizer.step()
        target.load_state_dict(net.state_dict())
        if watch.done(count, net):
            return


def sb3(algorithm: str, seed: int, watch: Watch) -> None:
    """PPO or DQN with stable-baselines3."""
    from stable_baselines3 import DQN as AgentDQN
    from stable_baselines3 import PPO as AgentPPO
    from stable_baselines3.common.callbacks import BaseCallback

    if algorithm == "ppo":
        model: Any = AgentPPO(
            "MlpPolicy",
            ENV,
            learning_rate=PPO["lr"],
            n_steps=int(PPO["batch"]),
            batch_size=int(PPO["minibatch"]),
            n_epochs=int(PPO["epochs"]),
            gamma=PPO["gamma"],
            gae_lambda=PPO["lmbda"],
            clip_range=PPO["clip"],
            max_grad_norm=PPO["norm"],
            # Orthogonal, with Tanh, as network() makes it.
            policy_kwargs={"net_arch": [64, 64], "optimizer_kwargs": {"eps": 1e-5, **ADAM}},
            seed=seed,
            device="cpu",
        )

        def act(observation: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = model.policy.get_distribution(observation).distribution.logits
            return scores
    else:
        model = AgentDQN(
            "MlpPolicy",
            ENV,
            learning_rate=DQN["lr"],
            buffer_size=int(DQN["capacity"]),
            learning_starts=int(DQN["first"]),
            batch_size=int(DQN["minibatch"]),
            gamma=DQN["gamma"],
            train_freq=int(DQN["batch"]),
            gradient_steps=int(DQN["updates"]),
            target_update_interval=int(DQN["batch"]),  # in steps of the env
            exploration_fraction=DQN["annealed"] / watch.limit,
            exploration_final_eps=DQN["eps"],
            max_grad_norm=DQN["norm"],
            policy_kwargs={"net_arch": [64, 64], "optimizer_kwargs": ADAM},
            seed=seed,
            device="cpu",
        )
        act = model.q_net

    class Stop(BaseCallback):
        """Asks the watch after each batch."""

        seen, over = 0, False

        def _on_training_start(self) -> None:
            watch.begin()

        def _on_rollout_start(self) -> None:
            if self.model.num_timesteps > self.seen:
                frames, self.seen = self.model.num_timesteps - self.seen, self.model.num_timesteps
                self.over = watch.done(frames, act)

        def _on_step(self) -> bool:
            return not self.over

    model.learn(watch.limit + int(PPO["batch"]), callback=Stop())


def main(library: str, algorithm: str, seed: int, frames: int, fused: bool) -> None:
    """Train an agent and print the report.

    Args:
        library: "rlnb", "torchrl" or "sb3"; "plain" for torch and Gymnasium alone.
        algorithm: "ppo" or "dqn".
        seed: of networks, env and actions.
        frames: steps to take; 0: until CartPole is solved.
        fused: whether Adam updates all parameters in one operation.
    """
    ADAM["fused"] = fused
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    watch = Watch(frames or None, algorithm, seed)
    if library == "plain":
        {"ppo": plain_ppo, "dqn": plain_dqn}[algorithm](seed, watch)
    else:
        train = sb3 if library == "sb3" else {"ppo": ppo, "dqn": dqn}[algorithm]
        train(algorithm if library == "sb3" else library, seed, watch)
    print(json.dumps(watch.report()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:] == ["fused"])
