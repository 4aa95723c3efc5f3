"""Cost of the TrainingMonitor: a training of CartPole in a notebook's kernel, with it and without it."""

from __future__ import annotations

import statistics

from jupyter_client.manager import start_new_kernel

BOUND = 3.0  # percent

CODE = """
import time

import torch
from rlnb.collectors import Collector
from rlnb.envs import GymEnv
from rlnb_widgets import TrainingMonitor

FRAMES, BATCH, UPDATES = {frames}, {batch}, {updates}
torch.set_num_threads(1)  # others would spin while they wait, and that counts as seconds of CPU


def train(monitor):
    env = GymEnv("CartPole-v1")
    net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    collector = Collector(env, frames_per_batch=BATCH, total_frames=FRAMES)
    for batch in collector if monitor is None else monitor.watch(collector):
        for _ in range(UPDATES):
            now = net(batch["observation"])
            after = net(batch["next", "observation"]).max(-1).values.detach()
            loss = (now.max(-1).values - batch["next", "reward"].squeeze(-1) - 0.99 * after).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if monitor is not None:
            monitor.log(loss=loss, epsilon=1 - collector.frames / FRAMES)
        yield


def watched():
    with TrainingMonitor(curves=["return", "loss", "epsilon"]) as monitor:
        yield from train(monitor)


def seconds():
    "Seconds of CPU of a training alone, and of one that is watched, with all other threads; the two take turns."
    cpu, thread = time.process_time, time.thread_time
    others, alone, with_monitor = thread() - cpu(), 0.0, 0.0
    trainings = train(None), watched()
    running = True
    while running:
        began = thread()
        next(trainings[0], None)
        between = thread()
        running = next(trainings[1], "end") != "end"
        alone += between - began
        with_monitor += thread() - between
    return alone, with_monitor + others + cpu() - thread()


seconds()
times = [seconds() for _ in range({passes})]
"""


def monitor_cost() -> None:
    """Print by how many percent the monitor makes a training longer, in seconds of CPU of the kernel.

    The threads that send messages to the page are counted, too. The training with the monitor and the one without it
    take turns, batch by batch: the clock of a shared machine changes its speed from second to second.
    """
    report("as often as the lesson on DQN", frames=30_000, batch=64, updates=8)
    report("after every update", frames=30_000, batch=16, updates=1)


def report(when: str, frames: int, batch: int, updates: int, passes: int = 3) -> None:
    """Print the monitor's share of one training, which logs after each batch of so many frames and updates."""
    # A kernel in this environment, in which the page's messages really are sent.
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    try:
        reply = client.execute_interactive(
            CODE.format(frames=frames, batch=batch, updates=updates, passes=passes),
            user_expressions={"times": "times"},
            output_hook=lambda message: None,
            timeout=600,
        )["content"]
        if reply["status"] != "ok":
            raise RuntimeError("\n".join(reply["traceback"]))
        times = eval(reply["user_expressions"]["times"]["data"]["text/plain"])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    more = 100 * (statistics.median(watched / alone for alone, watched in times) - 1)
    alone, watched = (statistics.median(column) for column in zip(*times, strict=True))
    verdict = "reached" if more <= BOUND else "NOT REACHED"
    work = f"{batch} frames and {updates} update{'s' * (updates > 1)}"
    print(
        f"  TrainingMonitor, {when}: {1e3 * batch * alone / frames:.1f} ms of CPU for {work}, "
        f"{1e6 * batch * (watched - alone) / frames:.0f} us more with it, median of {passes}: {more:+.1f} percent "
        f"(at most {BOUND:.0f}) {verdict}"
    )


if __name__ == "__main__":
    monitor_cost()
