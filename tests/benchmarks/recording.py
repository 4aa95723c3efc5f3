"""Times recording: rollouts with and without a recorder, and the encoding of videos; prints JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import torch

from rlnb.envs import Compose, GymEnv, GymWrapper, TransformedEnv
from rlnb.record import CSVLogger, PixelRenderTransform, TensorDictRecorder, VideoRecorder
from rlnb.record.video import encode_gif, encode_mp4

STEPS = 500
LIMIT = 4_000_000  # bytes of the recorder whose memory is measured


class Squares(gymnasium.Env):
    """A square that moves over an image of 84 x 84: about the cheapest frames that an env can have."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def _frame(self) -> np.ndarray:
        frame = np.full((84, 84, 3), 255, np.uint8)
        frame[30:50, self.at : self.at + 20] = (200, 40, 40)
        return frame

    def reset(self, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict]:
        self.at = 0
        return self._frame(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.at = (self.at + 1 + int(action)) % 64
        return self._frame(), 1.0, False, False, {}


def small(frame: np.ndarray) -> np.ndarray:
    """Shrink CartPole's frame, 400 x 600, to 84 x 84."""
    return frame[32:368:4, 132:468:4]


def rollouts(folder: str) -> dict[str, Callable[[], object]]:
    """Rollouts of 500 frames of 84 x 84, alone and recorded."""
    logger = CSVLogger("bench", log_dir=folder)

    def cartpole(*more: VideoRecorder) -> TransformedEnv:
        return TransformedEnv(
            GymEnv("CartPole-v1", render_mode="rgb_array"), Compose(PixelRenderTransform(preproc=small), *more)
        )

    def rollout(env: TransformedEnv) -> Callable[[], object]:
        def run() -> None:
            env.rollout(STEPS, break_when_any_done=False)
            for transform in env.transform:
                if isinstance(transform, (VideoRecorder, TensorDictRecorder)):
                    transform._clear()  # what is measured is recording, not writing

        return run

    def squares(*transforms: VideoRecorder | TensorDictRecorder) -> TransformedEnv:
        return TransformedEnv(GymWrapper(Squares()), Compose(*transforms))

    def with_callback() -> None:
        plain.rollout(STEPS, callback=lambda step: None, break_when_any_done=False)

    plain = squares()
    rendered, cheap = "CartPole, rendered and shrunk", "squares, the cheapest frames"
    return {
        f"{rendered}: alone": rollout(cartpole()),
        f"{rendered}: recorded": rollout(cartpole(VideoRecorder(logger, "video", skip=1))),
        f"{cheap}: alone": rollout(plain),
        f"{cheap}: recorded": rollout(squares(VideoRecorder(logger, "video", skip=1))),
        "squares, with a callback: alone": with_callback,
        f"{cheap}: TensorDictRecorder": rollout(squares(TensorDictRecorder(f"{folder}/steps", skip=1))),
    }


def encoders() -> dict[str, Callable[[], object]]:
    """The encoding of 300 frames of 256 x 256: CartPole's, with lines and areas, and a moving texture."""
    env = GymEnv("CartPole-v1", from_pixels=True)
    frames = env.rollout(300, break_when_any_done=False)["pixels"][:, 72:328, 172:428].movedim(-1, 1).contiguous()
    noise = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    texture = (torch.nn.functional.interpolate(noise, 556, mode="bilinear")[0] * 255).to(torch.uint8)
    moving = torch.stack([texture[:, t : t + 256, t : t + 256] for t in range(300)])
    return {
        "mp4 of CartPole": lambda: encode_mp4(frames),
        "mp4 of a moving texture": lambda: encode_mp4(moving),
        "gif of CartPole": lambda: encode_gif(frames),
    }


def memory(folder: str) -> dict[str, float]:
    """Record far more frames than the limit allows; how many bytes the recorder keeps, and how many Python holds more.

    The memory of torch's tensors that come from numpy is numpy's, which tracemalloc counts.
    """
    recorder = VideoRecorder(CSVLogger("bench", log_dir=folder), "video", skip=1, max_bytes=LIMIT)
    env = TransformedEnv(GymWrapper(Squares()), recorder)
    env.rollout(10)
    recorder._clear()
    recorder._frames.spare = None
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with warnings.catch_warnings(action="ignore"):
        for _ in range(3):
            env.rollout(STEPS)
    found = {"bytes kept": recorder.nbytes, "bytes held": tracemalloc.get_traced_memory()[0] - before}
    tracemalloc.stop()
    return {**found, "frames kept": len(recorder), "limit": LIMIT}


def main(rounds: int) -> None:
    """Print the best time of each case, in seconds of CPU a frame, and the memory of a recorder."""
    torch.set_num_threads(1)
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = {name: (run, STEPS) for name, run in rollouts(folder).items()}
        cases |= {name: (run, 300) for name, run in encoders().items()}
        for run, _ in cases.values():
            run()
        for _ in range(rounds):
            for name, (run, frames) in cases.items():
                start = time.process_time()
                run()
                best[name] = min(best.get(name, float("inf")), (time.process_time() - start) / frames)
        found = memory(str(Path(folder, "memory")))
    print(json.dumps({**best, **found}))


if __name__ == "__main__":
    main(int(sys.argv[2]))
