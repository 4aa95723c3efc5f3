"""Distributions and greedy choices against torchrl 0.14.1 with the same numbers (``golden.json``, by ``make.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.modules.golden.make import results

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
MOMENTS = {"mean", "variance"}
#: What differs on purpose; see docs/differences.md.
DIFFERENT = {
    "IndependentNormal, tanh_loc": {"*"},
    "TanhDelta, bounds": {"mode", "deterministic_sample", "samples"},
    "OneHotCategorical": {*MOMENTS, "shapes"},
    "MaskedOneHotCategorical": {*MOMENTS, "shapes"},
    "MaskedCategorical": MOMENTS,
    "MaskedCategorical, neg_inf": {"log_prob"},
}
#: The gradients of masked probabilities are NaN there.
NAN_GRADIENTS = {"MaskedCategorical, probs", "MaskedOneHotCategorical, probs"}


@cache
def ours():
    return results("rlnb")


def close(one, other, rel=1e-4, tol=1e-5):
    return one[1] == other[1] and all(
        a == pytest.approx(b, rel=rel, abs=tol) for a, b in zip(one[0], other[0], strict=True)
    )


def different(name):
    return DIFFERENT.get(name.split(",")[0], set()) | DIFFERENT.get(name, set())


@pytest.mark.parametrize("name", sorted(GOLDEN["distributions"]))
def test_distributions_are_those_of_torchrl(name):
    theirs, mine, skipped = GOLDEN["distributions"][name], ours()["distributions"][name], different(name)
    if "*" in skipped:
        return
    answers = {key for key in theirs if not key.startswith("gradient")} - {"samples", "shapes"} - skipped
    assert answers <= set(mine)
    # In float64 ours has the same digits; there, those of a far tail are lost.
    rel = 2e-3 if name == "TruncatedNormal, bounds" else 1e-4
    assert {key for key in answers if not close(theirs[key], mine[key], rel)} == set()
    if "shapes" not in skipped:
        assert theirs["shapes"] == mine["shapes"]


@pytest.mark.parametrize("name", sorted(GOLDEN["distributions"]))
def test_gradients_are_those_of_torchrl(name):
    theirs, mine, skipped = GOLDEN["distributions"][name], ours()["distributions"][name], different(name)
    if "*" in skipped or name in NAN_GRADIENTS:
        return
    for key in theirs:
        question = key.removeprefix("gradient of ")
        if question != key and question not in skipped:
            assert set(theirs[key]) == set(mine[key])
            # Float32 leaves three digits where the mass between the bounds is small.
            assert all(close(theirs[key][p], mine[key][p], 1e-3, 2e-4) for p in theirs[key]), key


@pytest.mark.parametrize("name", sorted(set(GOLDEN["distributions"]) - {"IndependentNormal, tanh_loc"}))
def test_samples_have_the_moments_of_torchrl(name):
    theirs, mine = GOLDEN["distributions"][name]["samples"], ours()["distributions"][name]["samples"]
    assert theirs["shape"] == mine["shape"]
    if "samples" not in different(name):
        assert close(theirs["mean"], mine["mean"], tol=0.03)
        assert close(theirs["std"], mine["std"], tol=0.03)


def test_what_differs_follows_the_documentation():
    found = ours()["distributions"]
    assert max(map(abs, found["IndependentNormal, tanh_loc"]["mean"][0])) < 0.5  # upscale
    half, middle = (1.5, 1.75), (-0.5, 1.25)
    squashed = [(a - middle[i % 2]) / half[i % 2] for i, a in enumerate(found["TanhDelta, bounds"]["mode"][0])]
    assert close((squashed, [3, 2]), found["TanhDelta"]["mode"])
    assert found["MaskedCategorical, neg_inf"]["log_prob"][0] == [-50.0, 0.0, -50.0]
    for kind in ("OneHotCategorical", "MaskedOneHotCategorical"):
        assert found[f"{kind}, logits"]["shapes"] == [[3], [4]]
        assert close(found[f"{kind}, logits"]["mean"], found[f"{kind}, probs"]["mean"])
        assert close(found[f"{kind}, logits"]["mean"], found[f"{kind}, logits"]["samples"]["mean"], tol=0.02)


@pytest.mark.parametrize("name", sorted(GOLDEN["mappings"]))
def test_scale_mappings_are_those_of_torchrl(name):
    theirs, mine = GOLDEN["mappings"][name], ours()["mappings"][name]
    assert all(close(theirs[key], mine[key]) for key in theirs)


@pytest.mark.parametrize("name", sorted(GOLDEN["choices"]))
def test_choices_are_those_of_torchrl(name):
    theirs, mine = GOLDEN["choices"][name], ours()["choices"][name]
    assert theirs["keys"] == mine["keys"]
    action, values, chosen = theirs["keys"][1]
    assert close(theirs["out"][values], mine["out"][values])
    if "ties" in name and not name.startswith(("categorical", "composite", "keys")):
        # There, a one-hot action has a 1 for each of the best.
        assert theirs["out"][action] != mine["out"][action]
        assert all(
            ours <= theirs for ours, theirs in zip(mine["out"][chosen][0], theirs["out"][chosen][0], strict=True)
        )
    else:
        assert close(theirs["out"][action], mine["out"][action])
        assert close(theirs["out"][chosen], mine["out"][chosen])
