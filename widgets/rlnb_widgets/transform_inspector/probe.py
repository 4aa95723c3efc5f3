"""Probes between the boxes of a chain: identity transforms that record the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.transform import Transform


@dataclass
class Log:
    """What passed the probes, by the index of the probe: 0 is below the first box."""

    forward: dict[int, TensorDictBase] = field(default_factory=dict)  #: data on the way out
    inverse: dict[int, TensorDictBase] = field(default_factory=dict)  #: data on the way in
    output: dict[int, Composite] = field(default_factory=dict)  #: specs of what the env gives
    input: dict[int, Composite] = field(default_factory=dict)  #: specs of what the env takes

    def clear(self) -> None:
        """Remove the data; the specs stay."""
        self.forward.clear()
        self.inverse.clear()


class Probe(Transform):
    """Records what passes one place of a chain.

    ``inverts`` tells whether the chain changes anything on the way in. A probe that claims so without need changes how
    random actions are drawn.
    """

    def __init__(self, place: int, log: Log, inverts: bool) -> None:
        super().__init__()
        self._place, self._inverts = place, inverts
        self._log: Log | None = log

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._log is not None:
            self._log.forward[self._place] = next_tensordict.clone()
        return next_tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._log is not None:
            self._log.inverse[self._place] = tensordict.clone()
        return tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Pass the data on."""
        return tensordict

    @property
    def invertible(self) -> bool:
        """Whether the chain changes anything on the way in."""
        return self._inverts

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Record the specs of the outputs of the env, and pass them on."""
        if self._log is not None:
            self._log.output[self._place] = output_spec.clone()
        return output_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Record the specs of the inputs of the env, and pass them on."""
        if self._log is not None:
            self._log.input[self._place] = input_spec.clone()
        return input_spec

    def _forget(self) -> None:
        # A clone belongs to the `parent` of a transform, whose steps are not shown.
        super()._forget()
        self._log = None


def flat(transform: Transform, code: str = "env.transform") -> list[tuple[Transform, str]]:
    """List the transforms of a chain, also those of a Compose in a Compose, with the code that reads each.

    Example:
        >>> from rlnb.envs.transforms import RewardSum, StepCounter
        >>> [code for _, code in flat(Compose(StepCounter(), Compose(RewardSum())))]
        ['env.transform[0]', 'env.transform[1][0]']
    """
    if not isinstance(transform, Compose):
        return [(transform, code)]
    return [pair for i, member in enumerate(transform) for pair in flat(member, f"{code}[{i}]")]


def probed(members: Sequence[Transform], log: Log, inverts: bool) -> Compose:
    """Return a chain with a probe before, between and after the transforms."""
    chain: list[Transform] = [Probe(0, log, inverts)]
    for place, member in enumerate(members, 1):
        chain += [member, Probe(place, log, inverts)]
    return Compose(*chain)
