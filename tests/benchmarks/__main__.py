"""Prints how fast rlnb is, within one run: beside Gymnasium, and beside TorchRL if an interpreter has it."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).parent
FLAT_SHARE = "flat bytes / TED bytes"
FRAME_TIMES = (
    "MultiSync(2)",
    "Collector of ParallelEnv(2)",
    "one Collector",
    "RayCollector(2)",
    "RayCollector(2), 4,000 frames a batch",
)
LIFE = ("first start", "second start", "close")
COMMITS = (
    "speed",
    "specs",
    "custom",
    "ted",
    "batched",
    "transforms",
    "buffers",
    "slices",
    "checkpoints",
    "collectors",
    "objectives",
    "models",
    "trees",
    "search",
)
PASSES = 3  # the libraries take turns, so that a busy moment of the machine hits all of them

BUFFER_TARGETS = {
    "torchrl": {
        "LazyTensorStorage: add": 8.0,
        "LazyTensorStorage: extend": 2.0,
        "LazyTensorStorage: sample": 2.0,
        "LazyMemmapStorage: add": 8.0,
        "LazyMemmapStorage: extend": 2.0,
        "LazyMemmapStorage: sample": 2.5,
        "ListStorage: sample": 5.0,
        "ListStorage, added one by one: sample": 5.0,
        "without replacement: sample": 2.0,
        "prioritized: sample": 1.5,
        "prioritized: sample, update": 1.5,
    },
    "cpprb": {"prioritized: sample": 1.0, "prioritized: update": 1.0, "prioritized: sample, update": 1.0},
}
TREE_TARGETS = {
    "extend, 10 steps": 20.0,
    "extend, 100 steps": 20.0,
    "extend, 1 step": 20.0,
    "get_tree, 2,400 nodes": 50.0,
    "get_tree, 2,400 nodes, each looked at": 5.0,
}
SLICE_TARGETS = {
    "by end_key": 10.0,
    "by traj_key": 10.0,
    "by end_key, cached": 2.0,
    "extend(1000), by end_key": 10.0,
    "without replacement": 2.0,
}


def run(python: str, *arguments: str, lines: int | None = 1, checkout: str | None = None) -> str:
    """Run a script under an interpreter and return the last lines that it prints; None: all of them.

    Args:
        python: the interpreter.
        arguments: its arguments.
        lines: how many lines to return.
        checkout: a copy of the repository to import rlnb from. None: the one that is installed.
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((checkout, f"{checkout}/widgets"))} if checkout else None
    done = subprocess.run([python, *arguments], capture_output=True, text=True, cwd=HERE, env=env)
    if done.returncode:
        sys.exit(f"{' '.join((python, *arguments))} failed:\n{done.stderr}")
    return "\n".join(done.stdout.rstrip().splitlines()[-(lines or 0) :])


def in_turns(programs: dict[str, list[str]]) -> dict[str, str]:
    """Run programs of which only one goes on at a time; return the last line of each.

    Args:
        programs: command lines. Each program prints "done" before each part of its work, and reads a line then.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": HERE}
    running = {name: subprocess.Popen(command, **pipes) for name, command in programs.items()}
    last: dict[str, str] = {}

    def goes_on(name: str) -> bool:
        """Read what a program prints, lines of the libraries too, until it waits or ends."""
        for line in running[name].stdout:
            if line == "done\n":
                return True
            last[name] = line
        return False

    waiting = [name for name in running if goes_on(name)]
    while waiting:
        for name in list(waiting):
            running[name].stdin.write("\n")
            running[name].stdin.flush()
            if not goes_on(name):
                waiting.remove(name)
    for name, process in running.items():
        if process.wait():
            sys.exit(f"{' '.join(programs[name])} failed.")
    return last


def best_times(script: str, libraries: dict[str, str], rounds: int = 5) -> dict[str, dict[str, float]]:
    """Run a script for each library, given with its interpreter, in turns; return the best seconds of each case.

    Args:
        script: in this folder; it prints them as JSON.
        libraries: by name.
        rounds: how often a script tries each case; many where making the data takes longer than that.

    Returns:
        The seconds of each case, by library.
    """
    best: dict[str, dict[str, float]] = {}
    for _ in range(PASSES):
        for name, python in libraries.items():
            found = json.loads(run(python, script, name, str(rounds)))
            old = best.get(name, found)
            best[name] = {key: min(old[key], found[key]) for key in found}
    return best


def rollouts(peer: str | None) -> None:
    """Compare steps per second."""
    libraries = {"gymnasium": sys.executable, "rlnb": sys.executable}
    if peer:
        libraries["torchrl"] = peer
    best = best_times("speed.py", libraries)
    print("CartPole-v1, 1000 steps with resets        steps/s    us/step")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:28s} {1 / seconds:10,.0f} {seconds * 1e6:10.1f}")
    ours = best["rlnb"]
    ratio("4-64-2 network: rlnb / bare gymnasium loop", best["gymnasium"]["network"] / ours["network"], 0.8)
    for form in ("", ", nested"):
        random, network = f"random{form}", f"network{form}"
        ratio(f"{random} policy: rlnb / bare gymnasium loop", best["gymnasium"][random] / ours[random], 0.35)
        if peer:
            ratio(f"{random} policy: rlnb / torchrl", best["torchrl"][random] / ours[random], 8)
            ratio(f"4-64-2 {network}: rlnb / torchrl", best["torchrl"][network] / ours[network], 3)
    if not peer:
        print("  torchrl: not measured. Name an interpreter that has it: make bench PEER=path/to/python")


def specs(peer: str | None) -> None:
    """Compare what a Composite of eight leaves does."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("specs.py", libraries)
    print("Composite of eight leaves                 calls/s    us/call")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:28s} {1 / seconds:10,.0f} {seconds * 1e6:10.1f}")
    for key, seconds in best.get("torchrl", {}).items():
        ratio(f"Composite.{key}: rlnb / torchrl", seconds / best["rlnb"][key], 3)


def custom(peer: str | None) -> None:
    """Compare 1,024 copies of CartPole in torch, and what a framework adds to a step.

    The framework's share is the time of ``step_and_maybe_reset`` beyond that of the env's own ``_step`` and ``_reset``,
    which are the same text in both libraries; the second figure is the time beyond the bare tensor operations.
    """
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("custom.py", libraries, rounds=20)
    print("1,024 torch CartPoles, one thread        env steps/s  us of CPU/step of all")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:34s} {1024 / seconds:12,.0f} {seconds * 1e6:10.1f}")
    ratio("CartPoleEnv.rollout: million env steps a second", 1024 / best["rlnb"]["CartPoleEnv.rollout"] / 1e6, 1)
    for case, work in (("step_and_maybe_reset", "physics"), ("rollout", "physics, actions drawn")):
        ratio(f"the {work} / {case}", best["rlnb"][work] / best["rlnb"][case], 0.6)
        own = best["rlnb"]["own methods"] + best["rlnb"][work] - best["rlnb"]["physics"]
        print(f"  with the TensorDicts that the env's own _step and _reset make: {own / best['rlnb'][case]:.2f}")
    if peer:
        share = {}
        for base in ("own methods", "physics"):
            share[base] = {name: times["step_and_maybe_reset"] - times[base] for name, times in best.items()}
        own, physics = (share[base]["torchrl"] / share[base]["rlnb"] for base in ("own methods", "physics"))
        ratio("the framework's share of a step: torchrl / rlnb", own, 4)
        print(f"  with the env's own TensorDicts, all but the physics: torchrl / rlnb: {physics:.2f}")


def ted(peer: str | None) -> None:
    """Compare step_mdp, and the flat form of a million steps with a plain copy of them."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("ted.py", libraries)
    print("TED data: step_mdp of ten entries; a million steps                  ms/call")
    for name, times in best.items():
        for key, value in times.items():
            if key != FLAT_SHARE:
                print(f"  {name:10s} {key:50s} {value * 1e3:10.3f}")
    ours = best["rlnb"]
    if peer:
        ratio("step_mdp: rlnb / torchrl", best["torchrl"]["step_mdp"] / ours["step_mdp"], 3)
    bound("TED2Flat and Flat2TED / a plain copy", ours["TED2Flat, Flat2TED"] / ours["copy"], 3)
    bound(FLAT_SHARE, ours[FLAT_SHARE], 0.52)


def batched(peer: str | None) -> None:
    """Compare batched envs: steps of all envs, and how long a batch takes to start and to end."""
    libraries = {"gymnasium": sys.executable, "rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("batched.py", libraries)
    print("Batched envs, CartPole with random actions                        us/step of all, ms to start and end")
    for name, times in best.items():
        for key, seconds in times.items():
            unit = 1e6 if seconds < 0.05 and key not in LIFE else 1e3
            print(f"  {name:10s} {key:34s} {seconds * unit:12.1f} {'us' if unit == 1e6 else 'ms'}")
    ours, theirs = best["rlnb"], best["gymnasium"]
    ratio("SerialEnv(4): rlnb / SyncVectorEnv", theirs["serial 4"] / ours["serial 4"], 0.4)
    for case in ("parallel 2", "parallel 8", "pictures 4"):
        ratio(f"ParallelEnv, {case}: rlnb / AsyncVectorEnv", theirs[case] / ours[case], 1)
    bound("seconds of a second start", ours["second start"], 0.5)
    bound("seconds to close", ours["close"], 0.3)
    if peer:
        ratio("SerialEnv(4): rlnb / torchrl", best["torchrl"]["serial 4"] / ours["serial 4"], 8)
        start = best["torchrl"]["first start"] / ours["first start"]
        ratio("ParallelEnv(4) to its first reset: torchrl / rlnb", start, 5)


def transforms(peer: str | None) -> None:
    """Compare rollouts of transformed envs."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("transforms.py", libraries)
    print("Transformed envs                           steps/s    us/step")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:32s} {1 / seconds:10,.0f} {seconds * 1e6:10.1f}")
    for case, target in (("numbers, rollout", 6), ("pixels, rollout", 1.5)):
        if case in best.get("torchrl", {}):
            ratio(f"{case}: rlnb / torchrl", best["torchrl"][case] / best["rlnb"][case], target)
        elif peer:
            print(f"  {case}: torchrl was not measured; it needs torchvision for pictures")
    alone = {name: times.get("pixels, rollout", 0) - times["pixels, drawing alone"] for name, times in best.items()}
    share = best["rlnb"]["pixels, drawing alone"] / best["rlnb"]["pixels, rollout"]
    print(f"  pixels, rollout: {share:.0%} of it is drawing the frames")
    if alone.get("torchrl", 0) > 0:
        print(f"  pixels, rollout, but for the drawing: rlnb / torchrl: {alone['torchrl'] / alone['rlnb']:.2f}")


def buffers(peer: str | None, cpprb: str | None) -> None:
    """Compare replay buffers: writing, sampling, priorities; with TorchRL, with cpprb and with a bare gather."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {}), **({"cpprb": cpprb} if cpprb else {})}
    best = best_times("buffers.py", libraries, rounds=20)
    print("Replay buffers, TED data of nine leaves, batches of 256           us of CPU/call")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:50s} {seconds * 1e6:10.1f}")
    ours = best["rlnb"]
    ratio("frames of 84 x 84 bytes: bare gather / sample", ours["frames: torch gather"] / ours["frames: sample"], 0.9)
    for library, targets in BUFFER_TARGETS.items():
        for case, target in targets.items():
            if case in best.get(library, {}):
                ratio(f"{case}: rlnb / {library}", best[library][case] / ours[case], target)
            elif library in libraries:
                print(f"  {case}: {library} was not measured; it has none that works here")
    if not cpprb:
        print("  cpprb: not measured. Name an interpreter that has it: make bench CPPRB=path/to/python")


def slices(peer: str | None) -> None:
    """Compare slices of trajectories, drawn from a million steps."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("slices.py", libraries, rounds=20)
    print("Slices of 32 steps from a million, batches of 256                  us of CPU/call")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:50s} {seconds * 1e6:10.1f}")
    for case, target in SLICE_TARGETS.items():
        if peer:
            ratio(f"{case}: rlnb / torchrl", best["torchrl"][case] / best["rlnb"][case], target)


def checkpoints(peer: str | None) -> None:
    """Compare saving and loading replay buffers, and what they take on the disk.

    What is compared is the time until a checkpoint is on the disk, and back in memory. That of rlnb is on the disk when
    ``dumps`` returns; for others, "sync" is measured, too.
    """
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("checkpoints.py", libraries)
    print("Checkpoints                                                            ms     ms of CPU         MB")
    for name, found in best.items():
        for key in (key for key in found if f"{key}, CPU" in found):
            size = found[f"{key.partition(': ')[0]}: bytes"] / 1e6
            print(f"  {name:8s} {key:42s} {found[key] * 1e3:10.1f} {found[f'{key}, CPU'] * 1e3:12.1f} {size:10.1f}")
    ours = best["rlnb"]
    for case in (
        f"{storage}, {data}" for storage in ("LazyTensorStorage", "LazyMemmapStorage") for data in ("steps", "frames")
    ):
        if peer:
            parts = [f"{case}: {part}" for part in ("dumps", "sync", "loads")]
            mine, theirs = (sum(best[name].get(part, 0) for part in parts) for name in best)
            ratio(f"{case}, to the disk and back: rlnb / torchrl", theirs / mine, 1)
    flat = ours["flat, 64 numbers: bytes"] / ours["plain, 64 numbers: bytes"]
    bound("flat checkpoint bytes / plain checkpoint bytes", flat, 0.52)


def collectors(peer: str | None) -> None:
    """Compare the frames per second of a collector with random actions."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("collectors.py", libraries)
    print("Collector, CartPole-v1, random actions   frames/s   us/frame")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:32s} {1 / seconds:12,.0f} {seconds * 1e6:10.1f}")
    for key, seconds in best.get("torchrl", {}).items():
        ratio(f"collector, {key}: rlnb / torchrl", seconds / best["rlnb"][key], 6)
    multi_collectors(libraries)


def datasets(peer: str | None) -> None:
    """Measure the conversion of HDF5 files beside a bare copy, and sampling beside a buffer in files."""
    with tempfile.TemporaryDirectory() as folder:
        libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
        # The second one reads the files that the first one makes.
        best = {
            name: json.loads(run(python, "offline_data.py", name, "3", folder)) for name, python in libraries.items()
        }
    ours = best["rlnb"]
    print("Datasets of 400,000 steps, batches of 256                                us")
    for name, times in best.items():
        for key in ("open", "dataset: sample", "LazyMemmapStorage: sample", "torch's index of each entry"):
            if key in times:
                print(f"  {name:10s} {key:50s} {times[key] * 1e6:10.1f}")
    ratio("D4RL: MB/s of uncompressed HDF5, on the CPU", ours["MB of D4RL"] / ours["convert D4RL"], 200)
    speed = ours["MB of D4RL"] / ours["convert D4RL, elapsed"]
    print(f"  D4RL: MB/s, elapsed: {speed:.0f}; a bare copy, on the CPU: {ours['MB of D4RL'] / ours['bare copy']:.0f}")
    speed, read = (ours["MB of Minari"] / ours[f"{case} Minari"] for case in ("convert", "read"))
    ratio("Minari, episodes of 1,000 steps: MB/s of uncompressed HDF5, on the CPU", speed, 200)
    print(f"  reading alone with h5py: {read:.0f} MB/s")
    ratio("sample: LazyMemmapStorage / dataset", ours["LazyMemmapStorage: sample"] / ours["dataset: sample"], 0.9)
    bound("ms to open a converted dataset", ours["open"] * 1e3, 20)
    if peer:
        ratio("sample: rlnb / torchrl", best["torchrl"]["dataset: sample"] / ours["dataset: sample"], 2)
    if (HERE / "preferences.py").exists():
        preferences()


def preferences() -> None:
    """Compare the tokenizing of texts with the bare fast tokenizer."""
    best = best_times("preferences.py", {"rlnb": sys.executable})["rlnb"]
    print("Preference data: 4,000 texts to tokens                            ms of CPU")
    for key, seconds in best.items():
        print(f"  {'rlnb':10s} {key:50s} {seconds * 1e3:10.1f}")
    for case in ("TensorDictTokenizer", "TokenizedDatasetLoader"):
        ratio(f"bare tokenizer / {case}", best["bare tokenizer"] / best[case], 0.9)


def multi_collectors(libraries: dict[str, str]) -> None:
    """Compare collectors on two processes, a learner beside them, and how long four take to start."""
    best = best_times("multi_collectors.py", libraries)
    print("Collectors on several processes, CartPole-v1, 4-64-64-2 network             ms")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:50s} {seconds * 1e3:12.3f}{' a frame' if key in FRAME_TIMES else ''}")
    ours = best["rlnb"]
    ratio("MultiSync(2) / Collector of ParallelEnv(2)", ours["Collector of ParallelEnv(2)"] / ours["MultiSync(2)"], 1)
    ratio("a learner of 20 ms: async / sync", ours["learning, synchronous"] / ours["learning, asynchronous"], 1.2)
    bound("ms of an update of a million weights", ours["update of 1,008,002 weights"] * 1e3, 5)
    if "torchrl" in best:
        theirs = best["torchrl"]
        ratio("MultiSync(2): rlnb / torchrl", theirs["MultiSync(2)"] / ours["MultiSync(2)"], 4)
        ratio(
            "start of four workers: torchrl / rlnb", theirs["start of four workers"] / ours["start of four workers"], 5
        )
    ray_collectors(ours["MultiSync(2)"])


def ray_collectors(frame: float) -> None:
    """Measure what Ray adds on one machine, where a frame of two processes takes ``frame`` seconds."""
    if importlib.util.find_spec("ray") is None:
        print('  MISSING: ray, for collectors on Ray; pip install "rlnb[ray]"')
        return
    found = json.loads(run(sys.executable, "ray_collectors.py", "rlnb", "5"))  # once: actors take seconds to start
    for key, seconds in found.items():
        print(f"  {'rlnb':10s} {key:50s} {seconds * 1e3:12.3f}{' a frame' if key in FRAME_TIMES else ''}")
    print(f"  Ray's overhead, ms a batch of 400 frames: {(found['RayCollector(2)'] - frame) * 400e3:.2f}")


def objectives(peer: str | None) -> None:
    """Compare value estimates and losses, with the same arithmetic in plain torch and with TorchRL."""
    libraries = {"torch": sys.executable, "rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("objectives.py", libraries, rounds=10)
    print("Estimates over [64, 2048]; losses of 64 steps, forward and backward   us of CPU/call")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:42s} {seconds * 1e6:12.1f}")
    plain, ours = best["torch"], best["rlnb"]
    for case in ("ClipPPOLoss", "DQNLoss"):
        bound(f"{case}: rlnb / plain torch", ours[case] / plain[f"plain torch: {case}"], 1.5)
    bound("GAE / the TD errors alone", ours["GAE, function"] / plain["TD errors alone"], 10)
    for key, seconds in best.get("torchrl", {}).items():
        ratio(f"{key}: rlnb / torchrl", seconds / ours[key], 1)


def recording() -> None:
    """Measure what a recorder adds to a rollout, how fast videos are encoded, and the memory of a recorder."""
    best = best_times("recording.py", {"rlnb": sys.executable})["rlnb"]
    memory = {key: best.pop(key) for key in ("bytes kept", "bytes held", "frames kept", "limit")}
    print("Recording: rollouts of 500 frames of 84 x 84, and videos of 256 x 256   us of CPU/frame")
    for key, seconds in best.items():
        print(f"  {key:60s} {seconds * 1e6:12.1f}")
    for env in ("CartPole, rendered and shrunk", "squares, the cheapest frames"):
        bound(f"VideoRecorder / taking the frames, {env}", best[f"{env}: recorded"] / best[f"{env}: alone"], 1.3)
    steps = best["squares, the cheapest frames: TensorDictRecorder"] / best["squares, with a callback: alone"]
    print(f"  TensorDictRecorder / the same rollout with a callback, which also needs a TensorDict a step: {steps:.2f}")
    for video in ("mp4 of CartPole", "mp4 of a moving texture"):
        ratio(f"{video}: frames a second on one core", 1 / best[video], 300)
    kept, held, limit = (memory[key] / 1e6 for key in ("bytes kept", "bytes held", "limit"))
    print(f"  a recorder with max_bytes={limit:.1f} MB, offered 31.8 MB: keeps {memory['frames kept']:.0f} frames")
    bound("MB that it keeps", kept, limit)
    bound("MB that the process holds more for it", held, limit + 0.2)


def models(peer: str | None) -> None:
    """Compare imagined rollouts with the bare modules: 1,024 latent states by 15 steps."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("models.py", libraries)
    print("DreamerEnv, 1,024 states by 15 steps                        ms of CPU")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:50s} {seconds * 1e3:10.1f}")
    ours = best["rlnb"]
    for case in [key.removesuffix(": rollout") for key in ours if key.endswith(": rollout")]:
        share = ours[f"{case}: rollout"] / ours[f"{case}: bare modules"]
        if case.startswith("small"):  # what a step costs in Python shows here
            print(f"  {case}: rollout / bare modules: {share:.2f}")
        else:
            bound(f"{case}: rollout / bare modules", share, 1.3)
        if peer:
            print(f"  {case}: torchrl / rlnb: {best['torchrl'][f'{case}: rollout'] / ours[f'{case}: rollout']:.2f}")


def training(peer: str | None, sb3: str | None, full: bool) -> None:
    """Compare whole programs that train PPO and DQN on CartPole.

    Args:
        peer: an interpreter that has torchrl.
        sb3: an interpreter that has stable-baselines3.
        full: train until CartPole is solved, which takes half an hour; else for a few thousand frames.
    """
    libraries = {"rlnb": sys.executable, "plain": sys.executable}
    libraries |= {name: python for name, python in (("torchrl", peer), ("sb3", sb3)) if python}
    seeds, frames = (5, 0) if full else (3, 8192)
    print(f"CartPole-v1, one thread, median of {seeds} seeds:    frames/s of CPU       s to 475   frames to 475")
    for algorithm, adam in itertools.product(("ppo", "dqn"), ("plain",) if full else ("plain", "fused")):
        case = f"{algorithm}, {adam} Adam"
        found: dict[str, list[dict[str, float | None]]] = {name: [] for name in libraries}
        for seed in range(seeds):
            programs = {
                name: [python, "-W", "ignore", "training.py", name, algorithm, str(seed), str(frames), adam]
                for name, python in libraries.items()
            }
            for name, printed in in_turns(programs).items():
                found[name].append(json.loads(printed))
        medians = {name: {key: median_of(runs, key) for key in runs[0]} for name, runs in found.items()}
        for name, own in medians.items():
            print(f"  {case} {name:10s} {own['fps']:30,.0f} {own['seconds']:17.1f} {own['frames']:15,.0f}")
        for name, target in (("torchrl", 2), ("sb3", 1.5)):
            if name in medians:
                most = median_ratio(found["plain"], found[name])
                what = f"{case}: frames a second, rlnb / {name} (a loop without a library {most:.2f})"
                ratio(what, median_ratio(found["rlnb"], found[name]), target)
            if name in medians and full:
                share = medians[name]["frames"] / medians["rlnb"]["frames"]
                ratio(f"{case}: frames to 475, {name} / rlnb", share, 1)
    if not full:
        print("  only the speed was measured. Train until CartPole is solved: make bench FULL=1 PARTS=training")
    if not sb3:
        print("  sb3: not measured. Name an interpreter that has stable-baselines3: make bench SB3=path/to/python")
    print(run(sys.executable, "monitor.py", lines=None))


def median_ratio(runs: list[Any], others: list[Any]) -> float:
    """The median over seeds of the ratio of frames a second: in the run of a seed, the programs take turns."""
    return statistics.median(run["fps"] / other["fps"] for run, other in zip(runs, others, strict=True))


def median_of(runs: list[dict[str, float | None]], key: str) -> float:
    """The median over seeds; a run that did not get there counts as infinite, and nan stands for none that tried."""
    values = [run[key] for run in runs]
    if key != "fps" and not any(values):
        return math.nan
    return statistics.median(math.inf if value is None else value for value in values)


def trees(peer: str | None) -> None:
    """Compare forests: adding rollouts, and making trees of them."""
    libraries = {"rlnb": sys.executable, **({"torchrl": peer} if peer else {})}
    best = best_times("trees.py", libraries)
    print("Trees of rollouts, TED data of nine leaves     steps or trees/s   us of CPU/step or tree")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:42s} {1 / seconds:12,.0f} {seconds * 1e6:14,.1f}")
    for case, target in TREE_TARGETS.items():
        if peer:
            ratio(f"{case}: rlnb / torchrl", best["torchrl"][case] / best["rlnb"][case], target)


def search(spiel: str | None) -> None:
    """Compare tree searches with OpenSpiel's in Python: UCB1, and random rollouts unless said."""
    libraries = {"rlnb": sys.executable, **({"open_spiel": spiel} if spiel else {})}
    best = best_times("search.py", libraries)
    print("Monte Carlo tree search                        simulations/s of CPU  us/simulation")
    for name, times in best.items():
        for key, seconds in times.items():
            print(f"  {name:10s} {key:44s} {1 / seconds:10,.0f} {seconds * 1e6:10.1f}")
    ours = best["rlnb"]
    for key, seconds in best.get("open_spiel", {}).items():
        ratio(f"{key}: rlnb / OpenSpiel's Python MCTS", seconds / ours[key], 1)
    many = "tic-tac-toe, 64 roots"
    ratio(f"{many}, random rollouts: thousand simulations a second", 1e-3 / ours[f"{many}, 400"], 60)
    bound(f"{many}: a simulation of 800 / one of 100", ours[f"{many}, 800"] / ours[f"{many}, 100"], 2)
    if not spiel:
        print("  open_spiel: not measured. Name an interpreter that has it: make bench SPIEL=path/to/python")


def solver(spiel: str | None) -> None:
    """Let searches with a solver play; see solver.py."""
    from tests.benchmarks import solver as script

    script.main(spiel)


def libs(peer: str | None, python: str | None) -> None:
    """Compare the wrappers of libraries with the libraries' own loops, and with TorchRL's wrappers."""
    if python is None:
        print("libs: no environment has the libraries. Fix: make test-libs, which makes one, or --libs PYTHON.")
        return
    best = best_times("libs.py", {"rlnb": python, **({"torchrl": peer} if peer else {})}, rounds=1)
    ours = {key: seconds for key, seconds in best["rlnb"].items() if not key.endswith((", own loop", ", drawn ahead"))}
    own = {key: best["rlnb"][f"{key}, own loop"] for key in ours}
    ahead = {key: best["rlnb"].get(f"{key}, drawn ahead", math.nan) for key in ours}
    print("Libraries, random actions, us/step: own loop with actions drawn ahead, own loop, rlnb, torchrl")
    for key, seconds in ours.items():
        columns = (ahead[key], own[key], seconds, best.get("torchrl", {}).get(key, math.nan))
        print(f"  {key:42s} {' '.join(f'{column * 1e6:9.1f}' for column in columns)}")
    for key, seconds in ours.items():
        if "VMAS" not in key:  # which is torch, not numpy
            bound(f"{key}: us a step over the library's own loop", (seconds - own[key]) * 1e6, 15)
            if not math.isnan(ahead[key]):
                print(f"    over that loop without its drawing of actions: {(seconds - ahead[key]) * 1e6:.2f}")
    for key, seconds in ours.items():
        if theirs := best.get("torchrl", {}).get(key):
            most = theirs / min(own[key], best["rlnb"].get(f"{key}, drawn ahead", math.inf))
            ratio(f"{key} (the library alone {most:.2f}): TorchRL's time / ours", theirs / seconds, 3)


def imports() -> None:
    """Measure what importing rlnb.envs costs on top of the packages that it stands on."""
    code = (
        "import time; a = time.perf_counter(); import torch, tensordict, gymnasium; b = time.perf_counter();"
        "import rlnb.envs; c = time.perf_counter(); print(b - a, c - b)"
    )
    times = [tuple(map(float, run(sys.executable, "-c", code).split())) for _ in range(PASSES)]
    base, added = (min(column) for column in zip(*times, strict=True))
    print(f"import torch, tensordict, gymnasium: {base:.2f} s")
    print(f"  import rlnb.envs adds {added:.2f} s (at most 0.30) {'reached' if added <= 0.3 else 'NOT REACHED'}")


def players() -> None:
    """Measure the RolloutPlayer: what it costs to build, how it opens and scrubs in a browser; then `make lab`."""
    for script in ("player.py", "opening.py", "lab.py"):
        print(run(sys.executable, script, lines=None))


def explorer() -> None:
    """Measure how a TreeExplorer of 10,000 nodes opens in a browser."""
    print(run(sys.executable, "explorer.py", lines=None))


def against(checkout: str, names: list[str]) -> None:
    """Compare each case with another commit of rlnb, in turns: seconds there divided by seconds here.

    Args:
        checkout: a copy of the repository at that commit.
        names: scripts to run; all if none is named.
    """
    slower = []
    for name in names or COMMITS:
        best: dict[str | None, dict[str, float]] = {}
        for turn in range(PASSES + 2):
            for place in (checkout, None) if turn % 2 else (None, checkout):
                found = json.loads(run(sys.executable, f"{name}.py", "rlnb", "10", checkout=place))
                best[place] = {key: min(seconds, best.get(place, found)[key]) for key, seconds in found.items()}
        print(f"{name}: us here, us at the other commit, its time / ours")
        for key, seconds in best[None].items():
            if key in best[checkout] and seconds:
                value = best[checkout][key] / seconds
                print(f"  {key:45s} {seconds * 1e6:12.1f} {best[checkout][key] * 1e6:12.1f} {value:6.2f}", flush=True)
                if value < 0.9:
                    slower.append(f"{name}: {key} {value:.2f}")
    print("Slower than 0.9 of the other commit:", "; ".join(slower) or "none")


def ratio(what: str, value: float, target: float) -> None:
    """Print a ratio beside the figure to reach."""
    print(f"  {what}: {value:.2f} (at least {target}) {'reached' if value >= target else 'NOT REACHED'}")


def bound(what: str, value: float, most: float) -> None:
    """Print a ratio beside the figure not to exceed."""
    print(f"  {what}: {value:.2f} (at most {most}) {'reached' if value <= most else 'NOT REACHED'}")


def libs_python() -> str | None:
    """The interpreter of the environment that ``make test-libs`` makes, if it was made."""
    found = [HERE.parents[1] / ".venv-libs" / place for place in ("bin/python", "Scripts/python.exe")]
    return next((str(python) for python in found if python.exists()), None)


def main() -> None:
    """Run the comparisons that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="an interpreter that has torchrl")
    parser.add_argument("--cpprb", help="an interpreter that has cpprb")
    parser.add_argument("--spiel", help="an interpreter that has open_spiel")
    parser.add_argument("--libs", help="an interpreter that has the wrapped libraries", default=libs_python())
    parser.add_argument("--sb3", help="an interpreter that has stable_baselines3")
    parser.add_argument("--full", action="store_true", help="train until solved, with five seeds")
    parser.add_argument("--against", help="a checkout of another commit: compare with it in one run, and nothing else")
    parser.add_argument("parts", nargs="*", help="which comparisons to run; all if none is named")
    given = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "rollouts": lambda: rollouts(given.peer),
        "specs": lambda: specs(given.peer),
        "custom": lambda: custom(given.peer),
        "ted": lambda: ted(given.peer),
        "batched": lambda: batched(given.peer),
        "transforms": lambda: transforms(given.peer),
        "buffers": lambda: buffers(given.peer, given.cpprb),
        "slices": lambda: slices(given.peer),
        "checkpoints": lambda: checkpoints(given.peer),
        "collectors": lambda: collectors(given.peer),
        "datasets": lambda: datasets(given.peer),
        "objectives": lambda: objectives(given.peer),
        "models": lambda: models(given.peer),
        "training": lambda: training(given.peer, given.sb3, given.full),
        "trees": lambda: trees(given.peer),
        "search": lambda: search(given.spiel),
        "solver": lambda: solver(given.spiel),
        "libs": lambda: libs(given.peer, given.libs),
        "imports": imports,
        "recording": recording,
        "players": players,
        "explorer": explorer,
    }
    if given.against:
        against(given.against, given.parts)
        return
    unknown = set(given.parts) - set(parts)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(parts)}")
    for name in given.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
