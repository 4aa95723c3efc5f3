"""Program: each spec is converted to TorchRL and back unchanged, and accepts the other library's samples."""

import pytest
import torch
import torchrl.data as torchrl
from tensordict import NonTensorData, TensorDict, tensorclass

import rlnb.data as ours
from rlnb.data import from_torchrl, to_torchrl

mask = torch.tensor([True, False, True])
flat_mask = [True, False, True, True, False]
locked_inside = ours.Composite(a={"b": ours.Unbounded(1)}, c=ours.Unbounded(1))
locked_inside["a"].lock_()


@tensorclass
class Pair:
    left: torch.Tensor


SPECS = [
    ours.Unbounded(3),
    ours.Unbounded(3, dtype=torch.int32),
    ours.Unbounded((-1, 3), dtype=torch.float16),
    ours.Bounded(-1, [1.0, 2.0], dtype=torch.float64),
    ours.Bounded(0, 255, (2,), dtype=torch.uint8),
    ours.Bounded(0, 1, (2,), dtype=torch.bool),
    ours.Bounded(0, 1, (-1, 2)),
    ours.Bounded(-(2**63), 2**63 - 1, (2,), dtype=torch.int64),
    ours.OneHot(3),
    ours.OneHot(3, shape=(2, 3), mask=mask),
    ours.OneHot(3, dtype=torch.float32),
    ours.Categorical(3),
    ours.Categorical(2, shape=(3, 1), dtype=torch.bool),
    ours.Categorical(3, shape=(2,), mask=mask, dtype=torch.int32),
    ours.MultiCategorical([2, 3]),
    ours.MultiCategorical([3]),
    ours.MultiCategorical([2, 3], shape=(4, 2), mask=flat_mask, dtype=torch.int32),
    ours.MultiCategorical([[2, 3], [3, 4]]),
    ours.MultiOneHot([2, 3]),
    ours.MultiOneHot([2, 3], shape=(4, 5), mask=flat_mask),
    ours.Binary(3),
    ours.Binary(shape=()),
    ours.Binary(3, shape=(2, 3), dtype=torch.bool),
    ours.NonTensor(()),
    ours.NonTensor((2,), example_data="a", device="cpu"),
    ours.Choice([ours.Bounded(-1, 1, (2,)), ours.Bounded(3, 4, (2,))]),
    ours.Choice([NonTensorData("a"), NonTensorData("b")]),
    ours.Composite(),
    ours.Composite(
        a=ours.Unbounded((3, 2)), b=None, c={"d": ours.OneHot(4, shape=(3, 4))}, shape=(3,), device="cpu"
    ).lock_(),
    locked_inside,
    torch.stack([ours.Categorical(3), ours.Categorical(4)]),
    torch.stack([ours.Bounded(0, 1, (3,)), ours.Bounded(0, 1, (4,))]),
    torch.stack([ours.Composite(a=ours.Unbounded(1)), ours.Composite(b=ours.Unbounded(1))]).lock_(),
    torch.stack([ours.Composite(a=ours.Unbounded((3, n)), shape=(3,)) for n in (1, 2)], 1),
]


def locks(spec):
    """The locks of a Composite and of those in it."""
    if not isinstance(spec, (ours.Composite, torchrl.Composite)):
        return None
    members = spec.unbind(spec.stack_dim) if hasattr(spec, "stack_dim") else spec.values()
    return spec.is_locked, [locks(member) for member in members]


for spec in SPECS:
    theirs = to_torchrl(spec)
    assert isinstance(theirs, torchrl.TensorSpec)
    assert type(theirs).__name__ == type(spec).__name__
    assert to_torchrl(theirs) is theirs
    back = from_torchrl(theirs)
    assert back == spec, (spec, back)
    assert type(back) is type(spec)
    assert locks(spec) == locks(theirs) == locks(back), spec
    assert (theirs.shape, theirs.device) == (spec.shape, spec.device), spec
    if not isinstance(spec, (ours.Composite, ours.Stacked)):  # theirs have a dtype of no meaning
        assert theirs.dtype == spec.dtype
    for drawn in (spec.rand(), theirs.rand()):
        assert spec.is_in(drawn), (spec, drawn)
        assert theirs.is_in(drawn), (spec, drawn)

# What is converted is a copy.
spec = ours.Bounded(0, 1, (2,))
to_torchrl(spec).space.low.fill_(-5)
assert spec.low.tolist() == [0, 0]
theirs = torchrl.Bounded(0, 1, (2,))
from_torchrl(theirs).low.fill_(-5)
assert theirs.space.low.tolist() == [0, 0]

# Subclasses, tensorclasses, devices.
assert to_torchrl(ours.Unbounded(2, device="meta")).device == torch.device("meta")
assert from_torchrl(torchrl.OneHot(3, device="meta")) == ours.OneHot(3, device="meta")
typed = ours.Composite(left=ours.Unbounded(2), data_cls=Pair)
assert isinstance(to_torchrl(typed).rand(), Pair)
assert from_torchrl(to_torchrl(typed)) == typed


class Speed(torchrl.Unbounded):
    pass


assert from_torchrl(Speed(3)) == ours.Unbounded(3)
# Vectors are the same wherever the numbers of the choices start.
assert from_torchrl(to_torchrl(ours.OneHot(3, start=5))) == ours.OneHot(3)

for impossible, part in (
    (ours.Categorical(3, start=1), "counts from 0"),
    (ours.MultiCategorical([3, 2], start=[0, 1]), "counts from 0"),
    (ours.MultiCategorical([3, 2])[0], "spec.unsqueeze(0)"),
    (ours.Choice([ours.Categorical(3), ours.Categorical(4)]).expand(2), "chooses for itself"),
):
    with pytest.raises(ValueError) as caught:
        to_torchrl(impossible)
    assert part in str(caught.value), caught.value
with pytest.raises(ValueError, match=r"not set \(n=-1\)"):
    from_torchrl(torchrl.Categorical(-1))
with pytest.raises(TypeError, match="uint16"):
    from_torchrl(torchrl.Unbounded(2, dtype=torch.uint16))
with pytest.raises(TypeError, match=r"^to_torchrl expects a spec of rlnb\.data, got a TensorDict"):
    to_torchrl(TensorDict({}))

print(len(SPECS), "specs")
