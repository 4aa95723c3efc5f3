"""Forms of tensors and of PyTrees, such as tuples and dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.forms.base import Form, Leaf, as_leaf
from rlnb.data.replay_buffers.forms.structure import describe_structure, dtype_name, empty_tensor, read_structure
from rlnb.data.replay_buffers.forms.tensordict_form import TensorDictForm, empty_tensordict
from rlnb.data.ted.keys import NestedKey, as_tuple

WHOLE = ()  # the key of a bare tensor


def is_data(value: Any) -> bool:
    """Whether a value is a TensorDict or a tensorclass, which is a leaf of a PyTree."""
    return isinstance(value, TensorDictBase) or is_tensorclass(value)


class TensorForm(Form):
    """Form of bare tensors, arrays and numbers; see :class:`Form`.

    Example:
        >>> TensorForm(torch.zeros(3, 2), ndim=1).leaves
        [Leaf(key=(), shape=torch.Size([2]), dtype=torch.float32)]
    """

    def __init__(self, data: Any, ndim: int) -> None:
        tensor = as_leaf(data)
        self._learn([Leaf(WHOLE, tensor.shape[ndim:], tensor.dtype)])

    def _take_apart(self, data: Any) -> list[Any]:
        return [as_leaf(data)]

    def build(self, leaves: Sequence[Any], lead: torch.Size) -> Any:
        """Return the one leaf; see :meth:`Form.build`."""
        return leaves[0]

    def lead(self, data: Any, ndim: int) -> torch.Size:
        """Read the first dimensions; see :meth:`Form.lead`."""
        return _lead([as_leaf(data)], [WHOLE], ndim)

    def describe(self) -> dict[str, Any]:
        """Describe the form; see :meth:`Form.describe`."""
        _, shape, dtype = self.leaves[0]
        assert dtype is not None
        return {"kind": "tensor", "shape": list(shape), "dtype": dtype_name(dtype)}

    def _keys(self, data: Any) -> list[NestedKey]:
        try:
            as_leaf(data)
        except TypeError:
            return []
        return [WHOLE]

    def _name(self) -> str:
        return "tensor"


class TreeForm(Form):
    """Form of PyTrees: nested dictionaries, lists and tuples of tensors, and whatever torch knows as a PyTree.

    They may hold TensorDicts. See :class:`Form`.

    Example:
        >>> TreeForm({"a": torch.zeros(3), "b": (torch.ones(3, 2),)}, ndim=1).leaves[1]
        Leaf(key=('b', 0), shape=torch.Size([2]), dtype=torch.float32)
    """

    def __init__(self, data: Any, ndim: int) -> None:
        values, self._spec = pytree.tree_flatten(data, is_leaf=is_data)
        self._kind = type(data).__name__
        self._forms: list[Form] = [
            TensorDictForm(value, ndim) if is_data(value) else TensorForm(value, ndim) for value in values
        ]
        self._template = pytree.tree_unflatten([None] * len(values), self._spec)
        self._simple = all(isinstance(form, TensorForm) for form in self._forms)
        self._learn(
            [
                Leaf((*path, *as_tuple(leaf.key)), leaf.shape, leaf.dtype)
                for form, path in zip(self._forms, _paths(data), strict=True)
                for leaf in form.leaves
            ]
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_spec": None}  # torch warns of copies of it

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._spec = pytree.tree_structure(self._template)

    def _take_apart(self, data: Any) -> list[Any]:
        values, spec = pytree.tree_flatten(data, is_leaf=is_data)
        if spec != self._spec:  # perhaps dictionaries with the same keys in another order
            values, spec = pytree.tree_flatten(_ordered_as(self._template, data), is_leaf=is_data)
            if spec != self._spec:
                raise TypeError("another structure")
        if self._simple:
            return [value if type(value) is torch.Tensor else as_leaf(value) for value in values]
        return [leaf for form, value in zip(self._forms, values, strict=True) for leaf in form._take_apart(value)]

    def build(self, leaves: Sequence[Any], lead: torch.Size) -> Any:
        """Put leaves together into a PyTree; see :meth:`Form.build`."""
        if self._simple:
            return pytree.tree_unflatten(leaves, self._spec)
        built, start = [], 0
        for form in self._forms:
            built.append(form.build(leaves[start : start + len(form.leaves)], lead))
            start += len(form.leaves)
        return pytree.tree_unflatten(built, self._spec)

    def lead(self, data: Any, ndim: int) -> torch.Size:
        """Read the first dimensions of all leaves; see :meth:`Form.lead`."""
        values = pytree.tree_flatten(data, is_leaf=is_data)[0]
        values = [value if is_data(value) else as_leaf(value) for value in values]
        return _lead(values, _paths(data), ndim)

    def describe(self) -> dict[str, Any]:
        """Describe the form; see :meth:`Form.describe`."""
        return {
            "kind": "tree",
            "structure": describe_structure(self._template),
            "values": [form.describe() for form in self._forms],
        }

    def put_on(self, device: torch.device | None) -> None:
        """Set the device of the leaves; see :meth:`Form.put_on`."""
        super().put_on(device)
        for form in self._forms:
            form.put_on(device)

    def _keys(self, data: Any) -> list[NestedKey]:
        values = pytree.tree_leaves(data, is_leaf=is_data)
        return [
            (*path, *as_tuple(leaf.key))
            for path, value in zip(_paths(data), values, strict=True)
            for leaf in (TensorDictForm(value, 0).leaves if is_data(value) else [Leaf(WHOLE, torch.Size(()), None)])
        ]

    def _name(self) -> str:
        return self._kind


def _paths(data: Any) -> list[tuple[Any, ...]]:
    """Return the paths of the leaves of a PyTree: names, and positions in lists and tuples."""
    with_path = pytree.tree_flatten_with_path(data, is_leaf=is_data)[0]
    return [tuple(map(_step_name, path)) for path, _ in with_path]


def _step_name(step: Any) -> Any:
    """Return the key, position or attribute that one step into a PyTree takes."""
    if isinstance(step, pytree.SequenceKey):
        return step.idx
    return step.key if isinstance(step, pytree.MappingKey) else getattr(step, "name", str(step))


def _ordered_as(template: Any, data: Any) -> Any:
    """Return data with the keys of its dictionaries in the order of a template."""
    if isinstance(template, dict) and isinstance(data, dict) and template.keys() == data.keys():
        return type(data)((key, _ordered_as(template[key], data[key])) for key in template)
    if isinstance(template, (list, tuple)) and type(template) is type(data) and len(template) == len(data):
        parts = [_ordered_as(*pair) for pair in zip(template, data, strict=True)]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    return data


def _lead(values: Sequence[Any], paths: Sequence[NestedKey], ndim: int) -> torch.Size:
    leads = [value.shape[:ndim] for value in values]
    if not leads:
        raise ValueError(errors.no_leaves())
    for path, value, lead in zip(paths, values, leads, strict=True):
        if len(lead) < ndim:
            what = f"a tensor of shape {list(value.shape)}{errors.at(path)}"
            raise ValueError(errors.too_few_dims(what, ndim))
    if any(lead != leads[0] for lead in leads):
        pairs = list(zip(paths, leads, strict=True))[: errors.MAX_LISTED]
        lines = "".join(f"\n  {path!r}: {list(lead)}" for path, lead in pairs)
        raise ValueError(
            "The tensors of a PyTree must lead with the same dimensions, whose positions are the items. "
            f"Nothing was written. They lead with:{lines}\n"
            "Fix: make them equal. A list at the root means something else: a list of items."
        )
    return leads[0]


def form_of(data: Any, ndim: int) -> Form:
    """Learn the form of data.

    Args:
        data: An item, or a batch of items: a TensorDict, a tensorclass, a tensor or a PyTree of these; ``TypeError`` is
            raised for anything else.
        ndim: Number of dimensions of the batch; 0 for a single item.

    Example:
        >>> form_of((torch.zeros(3), torch.zeros(3, 2)), ndim=1).leaves[1]
        Leaf(key=(1,), shape=torch.Size([2]), dtype=torch.float32)
    """
    if is_data(data):
        return TensorDictForm(data, ndim)
    if pytree.tree_is_leaf(data, is_leaf=is_data):
        return TensorForm(data, ndim)
    return TreeForm(data, ndim)


def form_from(description: dict[str, Any]) -> Form:
    """Make a form from what :meth:`Form.describe` returned, or somebody else wrote.

    Raises ``ValueError``, ``TypeError``, ``LookupError``, ``AttributeError`` or ``RuntimeError`` if it makes no sense.

    Example:
        >>> form = form_of((torch.zeros(3), torch.zeros(3, 2)), ndim=1)
        >>> form_from(form.describe()).leaves == form.leaves
        True
    """
    return form_of(_empty(description), 0)


def _empty(plain: dict[str, Any]) -> Any:
    """Make an item from the description of its form; its tensors take no memory."""
    kind = plain["kind"]
    if kind == "tensordict":
        return empty_tensordict(plain["root"])
    if kind == "tensor":
        return empty_tensor(plain["shape"], plain["dtype"])
    if kind != "tree":
        raise ValueError(f"data of the unknown kind {str(kind)[:60]!r}")
    spec = pytree.tree_structure(read_structure(plain["structure"]))
    return pytree.tree_unflatten([_empty(value) for value in plain["values"]], spec)
