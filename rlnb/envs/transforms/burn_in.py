"""``BurnInTransform``, which computes the initial recurrent state of a sampled sequence from its first steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.recurrent_mode import set_recurrent_mode
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.transform import Transform, key_list


class BurnInTransform(Transform):
    """Runs recurrent modules over the first steps of sampled sequences, and drops these steps.

    A buffer holds recurrent states that an older policy computed. This transform recomputes them with the current
    policy (Kapturowski et al., 2019), without gradients, and writes the result to the first remaining step.

    Args:
        modules: the recurrent modules in order, such as :class:`~rlnb.modules.LSTMModule`, or a single one.
        burn_in: the number of steps to run over.
        out_keys: the states. Default: the entries that a module reads, and writes under "next".

    Raises:
        TypeError: If one is not a TensorDictModule.
        ValueError: If ``burn_in`` is negative.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.modules import GRUModule
        >>> net = GRUModule(input_size=3, hidden_size=4, in_key="observation", out_key="features")
        >>> sample = TensorDict({"observation": torch.ones(2, 10, 3), "is_init": torch.zeros(2, 10, 1).bool()}, [2, 10])
        >>> sample["recurrent_state"] = torch.zeros(2, 10, 1, 4)
        >>> out = BurnInTransform([net], burn_in=4)(sample)
        >>> out.batch_size, bool(out["recurrent_state"][:, 0].any())
        (torch.Size([2, 6]), True)
    """

    def __init__(
        self,
        modules: Sequence[TensorDictModuleBase] | TensorDictModuleBase,
        burn_in: int,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        chain = [modules] if isinstance(modules, TensorDictModuleBase) else list(modules)
        for module in chain:
            if not isinstance(module, TensorDictModuleBase):
                raise TypeError(
                    f"BurnInTransform runs TensorDictModules, and got a {type(module).__name__}. "
                    "Fix: TensorDictModule(net, in_keys=[...], out_keys=[...])."
                )
        if isinstance(burn_in, bool) or not isinstance(burn_in, int) or burn_in < 0:
            raise ValueError(f"burn_in must be a non-negative integer, got {burn_in!r}.")
        super().__init__()
        # Not as submodules: they belong to the policy, which is trained, moved and saved as such.
        self.__dict__["modules_"] = chain
        self.burn_in = burn_in
        self.out_keys = _states(chain) if out_keys is None else key_list(list(out_keys), "out_keys")

    def _pair_up(self) -> None:
        """Accept any ``out_keys``: there are no ``in_keys``."""

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Run the modules over the first steps, and drop them.

        Raises:
            ValueError: If no steps remain.
            KeyError: If an input of the modules is missing.
        """
        if not self.burn_in:
            return tensordict
        length = tensordict.batch_size[-1] if tensordict.ndim else 0
        if length <= self.burn_in:
            raise ValueError(
                f"BurnInTransform drops the first {self.burn_in} steps of each sequence, and the data has batch size "
                f"{tuple(tensordict.batch_size)}, whose last dimension is time. Fix: sample longer sequences."
            )
        first = tensordict[..., : self.burn_in].copy()
        with torch.no_grad(), set_recurrent_mode(True):
            for module in self.__dict__["modules_"]:
                first = module(first)
        rest = tensordict[..., self.burn_in :].copy()
        for key in self.out_keys:
            state = first.get(as_key(("next", *as_tuple(key))))[(slice(None),) * (tensordict.ndim - 1) + (-1,)]
            stored = rest.get(key, None)
            shape = (*rest.batch_size, *state.shape[tensordict.ndim - 1 :])
            states = state.new_zeros(shape) if stored is None else stored.clone()
            states[(slice(None),) * (tensordict.ndim - 1) + (0,)] = state
            rest.set(key, states)
        return rest

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(errors.buffer_only(self, "runs over sequences of steps"))

    def __repr__(self) -> str:
        return f"BurnInTransform(burn_in={self.burn_in}, out_keys={self.out_keys})"


def _states(modules: list[TensorDictModuleBase]) -> list[NestedKey]:
    """What the modules read, and write for the step that follows."""
    read = [as_tuple(key) for module in modules for key in module.in_keys]
    written = [as_tuple(key) for module in modules for key in module.out_keys]
    return [as_key(path[1:]) for path in written if path[0] == "next" and path[1:] in read]


__all__ = ["BurnInTransform"]
