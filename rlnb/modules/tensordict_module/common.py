"""SafeModule: a TensorDictModule that knows the specs of its outputs, and can project onto them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, dispatch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.unwrapped import Function, of_module
from rlnb.modules.tensordict_module.fit import check_size
from rlnb.modules.tensordict_module.output_specs import as_output_spec, check_safe, draw_outputs, project_outputs


class SafeModule(TensorDictModule):
    """A module over TensorDicts with specs of its outputs.

    Args:
        module: a torch module or a function of tensors.
        in_keys: the entries that are its arguments, in order.
        out_keys: the entries that its results are written to; "_" drops one.
        spec: spec of the output. For several outputs a :class:`~rlnb.data.Composite` with entries for some of them.
        safe: whether to project each output that has a spec onto it, as :meth:`TensorSpec.project` does. Bounded
            values are clamped, which takes their gradient.
        inplace: whether to write into the TensorDict that is read. ``"empty"``: into an empty one like it.

    Raises:
        ValueError: If ``safe`` is set without a spec, the spec does not match the outputs, or on its first call the
            output has another size than its spec.

    Example:
        >>> import torch
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> module = SafeModule(
        ...     lambda x: 10 * x, in_keys=["x"], out_keys=["action"], spec=Bounded(-1.0, 1.0, (2,)), safe=True
        ... )
        >>> module(TensorDict({"x": torch.tensor([0.05, 3.0])}))["action"]
        tensor([0.5000, 1.0000])
    """

    def __init__(
        self,
        module: Callable[..., Any],
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        spec: TensorSpec | None = None,
        safe: bool = False,
        inplace: bool | str = True,
    ) -> None:
        super().__init__(module, in_keys, out_keys, inplace=inplace)  # type: ignore[arg-type]  # takes any sequence
        self.register_spec(safe, spec)
        self._sizes_checked = False

    def register_spec(self, safe: bool, spec: TensorSpec | None) -> None:
        """Set the spec of the outputs, and whether to project onto it.

        Args:
            safe: whether to project.
            spec: the spec, as for the constructor.

        Raises:
            ValueError: If ``safe`` is set without a spec, or the spec does not match the outputs.
        """
        made = as_output_spec(self, spec, self.out_keys)
        check_safe(self, safe, made)
        self._spec, self.safe = made, safe

    @property
    def spec(self) -> Composite:
        """Specs of all outputs; None for outputs without a known spec."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec | None) -> None:
        self.register_spec(self.safe, spec)

    def random(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write random values of the outputs that have a spec.

        Args:
            tensordict: where to write, ``[*batch]``.

        Returns:
            ``tensordict``.

        Raises:
            ValueError: If no output has a spec.
        """
        return draw_outputs(self, tensordict, self.spec)

    def random_sample(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write random values of the outputs that have a spec, like :meth:`random`."""
        return self.random(tensordict)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: TensorDictBase, *args: Any, **kwargs: Any) -> TensorDictBase:
        """Call the module on the entries ``in_keys``, and write its results.

        Args:
            tensordict: data with the entries ``in_keys``.
            *args: those of ``TensorDictModule.forward``.
            **kwargs: those of ``TensorDictModule.forward``.

        Returns:
            The TensorDict with the results: the one that was given, if ``inplace``.
        """
        result = super().forward(tensordict, *args, **kwargs)
        if not self._sizes_checked:
            for key, leaf in self._spec.items(True, True):
                if leaf is not None and (value := result.get(key, None)) is not None:
                    check_size(key, value.shape, leaf)
            self._sizes_checked = True
        if self.safe:
            project_outputs(result, self._spec)
        return result

    def _unwrap(self, batch_size: torch.Size | None) -> Function | None:
        return of_module(self) if self._sizes_checked and not self.safe else None
