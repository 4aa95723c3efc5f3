"""Malicious characters in keys, texts and errors: each view of each visualizer is valid and escapes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rlnb_widgets import (
    BatchedEnvTimeline,
    BufferExplorer,
    RolloutPlayer,
    SpecExplorer,
    TEDExplorer,
    Timeline,
    TransformInspector,
    TreeExplorer,
    play,
)  # fmt: skip
from rlnb_widgets._core.visualizer import Visualizer
from tensordict import NonTensorStack, TensorDict

from rlnb._text import printable
from rlnb.data import Bounded, Composite, LazyTensorStorage, MCTSForest, NonTensor, ReplayBuffer
from rlnb.data.specs.stacked_composite import StackedComposite
from rlnb.envs import CartPoleEnv, GridWorldEnv
from rlnb.envs.batched.trace import BatchTrace, Turn
from rlnb.envs.transforms import RenameTransform, TransformedEnv

# What a terminal obeys, what XML forbids, what UTF-8 cannot encode and what reorders a line, among ordinary characters.
HOSTILE = "\x1b\x00\x07\r\x9b\x7f\ufffe\uffff\ud800\udfff\u202e\u2066\u200f\u2028<&'\"\\`é🂡"
TEXTS = st.text(st.sampled_from(HOSTILE + "ab"), min_size=1, max_size=12).map(lambda text: f"k{text}")
WORST = f"k{HOSTILE}"


def steps(text: str) -> TensorDict:
    rows = {text: torch.arange(3.0)[:, None], "said": NonTensorStack(text, text, "x"), "action": torch.zeros(3, 1)}
    ends = torch.tensor([[False], [False], [True]])
    return TensorDict({**rows, "next": {text: torch.ones(3, 1), "reward": torch.ones(3, 1), "done": ends}}, [3])


def batch(text: str) -> BatchedEnvTimeline:
    rows = torch.tensor([[1000, 3000, 0, 4000]]).numpy()
    error = RuntimeError(f"Worker 0 of 1 failed in step: ValueError: {text}\n\nIn the worker:\nValueError: {text}")
    return BatchedEnvTimeline(BatchTrace("SerialEnv", 1, [Turn("step", (0,), 0, 5000, rows)]), error=error)


def buffer(text: str) -> BufferExplorer:
    rb = ReplayBuffer(storage=LazyTensorStorage(4), batch_size=2)
    rb.extend(steps(text).exclude("said"))
    return BufferExplorer(rb)


def inspector(text: str) -> TransformInspector:
    return TransformInspector(TransformedEnv(CartPoleEnv(), RenameTransform(["observation"], [text])), seed=0)


def spec(text: str) -> Composite:
    return Composite({text: Bounded(0, 1, (2,)), "said": NonTensor(example_data=text, shape=())})


def tree(text: str) -> TreeExplorer:
    forest = MCTSForest()
    rollout = CartPoleEnv().rollout(3)
    forest.extend(rollout)
    return TreeExplorer(forest.get_tree(rollout[0]), labels=lambda node: text, actions=[text, text])


def game(text: str) -> Any:
    def policy(td: TensorDict) -> TensorDict:
        raise ValueError(text)

    policy.__name__ = text
    played = play(GridWorldEnv(["S.G"]), policy)
    played.let_policy()
    return played


VISUALIZERS: dict[str, Callable[[str], Visualizer]] = {
    "RolloutPlayer": lambda text: RolloutPlayer(steps(text)),
    "TEDExplorer": lambda text: TEDExplorer(steps(text)),
    "SpecExplorer": lambda text: SpecExplorer(spec(text)),
    "TransformInspector": inspector,
    "BatchedEnvTimeline": batch,
    "BufferExplorer": buffer,
    "TreeExplorer": tree,
    "play": game,
    "Timeline": lambda text: Timeline(4, marks={text: [1]}),
}


class Page(HTMLParser):
    """Collects the text and the attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.found.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for _, value in attrs]


def harmless(text: str) -> bool:
    return printable(text) == text


def check_views(shown: Visualizer) -> None:
    svg = shown.to_svg()
    ElementTree.fromstring(svg)
    data, _ = shown._repr_mimebundle_()
    for view in (repr(shown), shown.explain(), svg, data["text/plain"], *Page(data["text/html"]).found):
        assert harmless(view)
    html = shown.to_html()
    html.encode()
    assert "\x00" not in html
    # What a kernel does with the traits.
    json.dumps(shown.get_state(), ensure_ascii=False, default=lambda value: "bytes").encode()


@pytest.mark.parametrize("name", VISUALIZERS)
def test_every_face_is_legal_with_every_hostile_character(name: str) -> None:
    check_views(VISUALIZERS[name](WORST))


@pytest.mark.parametrize("name", ["RolloutPlayer", "TEDExplorer", "SpecExplorer", "BatchedEnvTimeline", "Timeline"])
@settings(max_examples=8)
@given(text=TEXTS)
def test_every_face_is_legal_whatever_the_text(name: str, text: str) -> None:
    check_views(VISUALIZERS[name](text))


@given(text=st.text(st.characters(codec=None)))
def test_printable_text_encodes_is_legal_xml_and_stays_so(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert printable(shown) == shown
    body = shown.replace("&", "&amp;").replace("<", "&lt;")
    ElementTree.fromstring(f"<p>{body}</p>")
    assert all(ord(c) >= 32 or c in "\n\t" for c in shown)
    assert "\n" not in printable(text, one_line=True)


PLAIN = ["plain", "two\nlines\tand a tab", "schön", "한국어", "👨\u200d👩\u200d👧", "a\u00a0b", "-- — …"]


@pytest.mark.parametrize("text", PLAIN)
def test_printable_text_is_left_alone(text: str) -> None:
    assert printable(text) == text


def test_reprs_of_specs_write_keys_on_one_line() -> None:
    shown = repr(spec(WORST + "\n"))
    assert harmless(shown) and "\\ud800" in shown and "\\x1b\\x00" in shown and "\\n: Bounded" in shown
    other = Composite({WORST: Bounded(0, 1, (3,)), "other" + WORST: Bounded(0, 1, (3,))})
    assert harmless(repr(StackedComposite(spec(WORST), other, dim=0)))


@pytest.mark.parametrize("name", ["TEDExplorer", "SpecExplorer"])
def test_the_page_shows_keys_as_the_text_view_does(browse: Any, name: str) -> None:
    key = "k\x1b\x00\n\u202e<b>"
    shown = browse(VISUALIZERS[name](key), lambda page: page.locator(".rlnb-tree .rlnb-name").all_inner_texts())
    assert printable(key, one_line=True) in shown
