"""Stateless pendulum: state and parameters are entries of the TensorDict, and gradients flow through steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.base import EnvBase
from rlnb.envs.custom.tensor_env import seed_generator

DEFAULT_PARAMS = {"max_speed": 8.0, "max_torque": 2.0, "dt": 0.05, "g": 10.0, "m": 1.0, "l": 1.0}


class PendulumEnv(EnvBase):
    """A pendulum on a motor, to be swung up and kept upright with little torque.

    The env is stateless: the angle "th" (rad, 0 is upright, in [-pi, pi]), the angular velocity "thdot" (rad/s) and
    the parameters "params" (see :meth:`gen_params`) are read from the TensorDict and written to the next one. So it
    takes a TensorDict of any batch size, and gradients flow through a whole rollout. The action is the torque (N m),
    of shape ``[..., 1]``; the reward is ``-(th^2 + 0.1 thdot^2 + 0.001 torque^2)``. Episodes do not end.

    A reset draws "th" and "thdot", and keeps "params" if its input has them. To start elsewhere, write "th" and
    "thdot" into the output of the reset.

    The physics and the reward are those of Gymnasium's Pendulum-v1, which observes (cos th, sin th, thdot).

    Args:
        td_params: the parameters of a reset without any, as from :meth:`gen_params`. Their batch size is the env's.
            Default: those of Gymnasium, without a batch dimension.
        seed: as for :meth:`set_seed`. ``None`` (the default) seeds with unpredictable numbers.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.

    Attributes:
        DEFAULT_X: the first angle is uniform within +- this (rad).
        DEFAULT_Y: the first angular velocity is uniform within +- this (rad/s).
        generator: the env's random number generator. Torch's global generator is not used.

    Raises:
        KeyError: If ``td_params`` lacks a parameter.

    Example:
        >>> env = PendulumEnv(seed=0)
        >>> env.rollout(5).batch_size
        torch.Size([5])
        >>> td = env.reset(env.gen_params(batch_size=[64]))
        >>> env.rollout(5, tensordict=td, auto_reset=False)["next", "reward"].shape
        torch.Size([64, 5, 1])
        >>> gain = torch.tensor(0.5, requires_grad=True)
        >>> rollout = env.rollout(5, lambda th, thdot, *params: (gain * thdot).unsqueeze(-1))
        >>> rollout["next", "reward"].sum().backward()
        >>> bool(gain.grad != 0)
        True
    """

    DEFAULT_X = math.pi
    DEFAULT_Y = 1.0
    batch_locked = False

    def __init__(
        self,
        td_params: TensorDictBase | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        params = self.gen_params() if td_params is None else td_params
        params = params.get("params", params)
        _check_params(params)
        super().__init__(device, params.batch_size)
        self._params = params.clone() if device is None else params.to(self.device)
        self.generator = torch.Generator(self.device or "cpu")
        self._seed: int | None = None
        self._make_specs()
        self.set_seed(seed)

    def _make_specs(self) -> None:
        batch, device, params = self.batch_size, self.device, self._params
        speed, torque = params["max_speed"], params["max_torque"].unsqueeze(-1)
        names = {name: Unbounded(shape=batch, device=device) for name in DEFAULT_PARAMS}
        self.observation_spec = Composite(
            {
                "th": Bounded(-math.pi, math.pi, shape=batch, device=device),
                "thdot": Bounded(-speed, speed, shape=batch, device=device),
                "params": Composite(names, shape=batch),
            },
            shape=batch,
        )
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Bounded(-torque, torque, shape=(*batch, 1), device=device)
        self.reward_spec = Unbounded(shape=(*batch, 1), device=device)

    @staticmethod
    def gen_params(
        g: float = DEFAULT_PARAMS["g"],
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
    ) -> TensorDict:
        """Make a TensorDict with the parameters of pendulums, to be passed to ``reset``.

        Args:
            g: the acceleration of gravity (m/s^2).
            batch_size: the number of pendulums, as a shape. Default: one, without a batch dimension.
            device: device of the parameters.

        Returns:
            A TensorDict with a single entry "params": "max_speed" (rad/s), "max_torque" (N m), "dt" (s), "g" (m/s^2),
            "m" (kg) and "l" (m), each of shape ``batch_size``. They may be changed, also row by row.

        Example:
            >>> sorted(PendulumEnv.gen_params(batch_size=[2])["params"].keys())
            ['dt', 'g', 'l', 'm', 'max_speed', 'max_torque']
        """
        batch = torch.Size(batch_size or ())
        values = {**DEFAULT_PARAMS, "g": g}
        params = {name: torch.full(batch, float(value), device=device) for name, value in values.items()}
        return TensorDict({"params": TensorDict(params, batch, device=device)}, batch, device=device)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        if kwargs:
            raise TypeError(f"PendulumEnv.reset takes a TensorDict and nothing else, and got {sorted(kwargs)}.")
        params = None if tensordict is None else tensordict.get("params", None)
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        if params is None:
            params = self._params.expand(batch).clone()
        _check_params(params)
        self._seed = None
        device = self.device or params["g"].device
        draw = (torch.rand((2, *batch), device=self.generator.device, generator=self.generator) * 2 - 1).to(device)
        state = {"th": draw[0] * self.DEFAULT_X, "thdot": draw[1] * self.DEFAULT_Y, "params": params}
        return TensorDict(state, batch, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        th, thdot, params = (tensordict.get(key, None) for key in ("th", "thdot", "params"))
        if th is None or thdot is None or params is None:
            raise KeyError(
                "PendulumEnv keeps no state: step reads 'th', 'thdot' and 'params' from the TensorDict, and found "
                f"{sorted(map(str, tensordict.keys()))}. Fix: start from env.reset(), or from step_mdp(previous)."
            )
        g, m, length, dt = params["g"], params["m"], params["l"], params["dt"]
        limit, speed = params["max_torque"], params["max_speed"]
        torque = tensordict.get("action").squeeze(-1).clamp(-limit, limit)
        cost = _wrap(th) ** 2 + 0.1 * thdot**2 + 0.001 * torque**2
        acceleration = 3 * g / (2 * length) * th.sin() + 3 / (m * length**2) * torque
        thdot = (thdot + acceleration * dt).clamp(-speed, speed)
        batch = tensordict.batch_size
        data = {
            "th": _wrap(th + thdot * dt),
            "thdot": thdot,
            "params": params,
            "reward": -cost.unsqueeze(-1),
            "done": torch.zeros((*batch, 1), dtype=torch.bool, device=th.device),
        }
        return TensorDict(data, batch, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed  # pending until a reset draws with it, so that check_env_specs can restore it
        seed_generator(self.generator, seed)

    def to(self, *args: Any, **kwargs: Any) -> PendulumEnv:
        """Move the env and its default parameters to a device. Its generator stays where it is."""
        super().to(*args, **kwargs)
        if self.device is not None:
            self._params = self._params.to(self.device)
        return self


def _wrap(angle: torch.Tensor) -> torch.Tensor:
    """Return the same angle in [-pi, pi]."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def _check_params(params: TensorDictBase) -> None:
    missing = [name for name in DEFAULT_PARAMS if params.get(name, None) is None]
    if missing:
        raise KeyError(
            f"The pendulum's 'params' lack {missing}: they are {sorted(DEFAULT_PARAMS)}. "
            "Fix: start from PendulumEnv.gen_params(batch_size=[...]) and change what should differ."
        )
