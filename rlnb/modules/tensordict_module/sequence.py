"""SafeSequential: modules over TensorDicts one after another, with the specs of all their outputs."""

from __future__ import annotations

from typing import Any

from tensordict.nn import TensorDictSequential

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.modules.tensordict_module.common import SafeModule


class SafeSequential(TensorDictSequential, SafeModule):
    """Modules over TensorDicts that run one after another; their specs are collected in :attr:`spec`.

    Each module projects its own outputs, if it was made with ``safe=True``.

    Args:
        *modules: the modules, in order.
        partial_tolerant: whether to leave out modules whose inputs are missing.
        inplace: whether to write into the TensorDict that is read. None: each module decides.

    Example:
        >>> import torch
        >>> from rlnb.data import Bounded
        >>> from tensordict.nn import TensorDictModule
        >>> body = TensorDictModule(torch.nn.Linear(4, 8), ["observation"], ["hidden"])
        >>> head = SafeModule(torch.nn.Linear(8, 2), ["hidden"], ["action"], spec=Bounded(-1.0, 1.0, (2,)), safe=True)
        >>> policy = SafeSequential(body, head)
        >>> policy.in_keys, policy.out_keys
        (['observation'], ['hidden', 'action'])
        >>> policy.spec["hidden"] is None, policy.spec["action"].shape
        (True, torch.Size([2]))
    """

    def __init__(self, *modules: Any, partial_tolerant: bool = False, inplace: bool | str | None = None) -> None:
        super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace)

    _unwraps_as_sequence = True

    def register_spec(self, safe: bool, spec: TensorSpec | None) -> None:
        """Keep the specs in the modules; a sequence has none of its own.

        Raises:
            ValueError: If a spec or ``safe`` is given.
        """
        if safe or spec is not None:
            raise ValueError(
                f"The specs of {type(self).__name__} are those of its modules. Fix: set spec= and safe= of the module "
                "that writes the entry."
            )
        self.safe = False

    def __getitem__(self, index: int | slice | str) -> Any:
        """Return a module, or for a slice a plain :class:`SafeSequential` of those modules.

        A slice of a subclass, such as a :class:`QValueActor`, is not one of that class: its parts are other ones.
        """
        if not isinstance(index, slice):
            return super().__getitem__(index)
        modules = list(self._module_iter())[index]
        return self._kind_of(modules)(*modules, partial_tolerant=self.partial_tolerant, inplace=self.inplace)

    def _kind_of(self, modules: list[Any]) -> Any:
        """The class of a slice."""
        return SafeSequential

    @property  # type: ignore[misc]  # collected, so it cannot be set
    def spec(self) -> Composite:
        """Specs of the outputs of all modules; None for outputs without a known spec."""
        found = dict.fromkeys(self.out_keys)
        for module in self._module_iter():
            own = getattr(module, "spec", None)
            if isinstance(own, Composite):
                found.update({key: leaf for key, leaf in own.items(True, True) if leaf is not None})
        return Composite(found)
