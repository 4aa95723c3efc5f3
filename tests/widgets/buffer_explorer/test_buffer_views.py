"""Views of the buffer explorer: deterministic, escaped, bounded, and fast for a million rows."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
import torch
from rlnb_widgets import BufferExplorer
from rlnb_widgets.buffer_explorer.payload import buffer_payload
from rlnb_widgets.buffer_explorer.scene import legend_of
from rlnb_widgets.buffer_explorer.values import levels_of
from rlnb_widgets.buffer_explorer.words import rows_text
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, ListStorage, PrioritizedSampler, ReplayBuffer, TensorDictReplayBuffer
from tests.widgets.buffer_explorer.conftest import make_buffer, make_steps


def prioritized(size=8):
    sampler = PrioritizedSampler(size, alpha=1.0, beta=0.5, eps=0.0)
    explorer = BufferExplorer(make_buffer(size, sampler=sampler), slice_len=3)
    explorer.extend(make_steps([2, 3]))
    index = explorer.extend(make_steps([4, 1]))
    explorer.update_priority(index, torch.tensor([4.0, 1.0, 1.0, 1.0, 0.25]))
    explorer.count(torch.tensor([0, 5, 5]))
    return explorer


def test_a_buffer_with_columns_counts_items():
    explorer = BufferExplorer(make_buffer(6, ndim=2))
    explorer.extend(torch.stack([make_steps([3]), make_steps([3])]))
    assert repr(explorer).count("never") == 0
    explorer.sample()
    assert re.search("; [0-9] of 6 items were never drawn", repr(explorer))


def test_long_names_of_components_stand_in_two_lines():
    svg = prioritized().to_svg()
    assert ">TensorDictRoundRobin</text>" in svg and ">Writer</text>" in svg and ">PrioritizedSampler</text>" in svg


def test_the_text():
    assert (
        repr(prioritized())
        == """\
BufferExplorer: TensorDictReplayBuffer, 8 of 8 rows filled, next is row 2
  writer     TensorDictRoundRobinWriter  next: row 2, written: 10 rows
  storage    LazyTensorStorage           room: 8 items, ndim: 1, device: cpu
  sampler    PrioritizedSampler          alpha: 1, beta: 0.5, eps: 0, dtype: torch.float32, reduction: max, \
max_priority_within_buffer: False, batch_size: 4
  transform  none                        reading and writing: leave the data as it is
  All 8 rows are filled. Row 2 is the oldest and is written over next; row 1 is the newest. The seam lies between them.
  age, physical order, fuller is newer
    ██▒▒▓▓▓█
      ^ next: row 2
  3 trajectories of 1 to 4 rows, by ("next", "done")
    rows 2 to 4, its beginning may be gone
    rows 5 to 7 and 0
    row 1
  A slice of 3 rows fits into 2 of 3 trajectories, at 3 starts.
  3 draws in 1 sample; row 5 was drawn most often, 2 times (1.17 expected); 6 of 8 were never drawn
    ▅▁▁▁▁█▁▁
  priorities as stored, (p + eps)^1: 0.25 to 4, sum 10.25; the largest is drawn with probability 0.39
    ▂▁▂▂▂█▂▂
  weights at beta 0.5: 0.25 to 1
  72 B in memory, cpu, 9 B an item
    "observation"     float32 [2]  64 B
    ("next", "done")  bool [1]      8 B
  record, at moment 4 of 4
      0  as it was found
      1  extend by 5 items: rows 0 to 4 written
      2  extend by 5 items: rows 5 to 7 and 0 to 1 written, 2 rows over the oldest, 1 trajectory gone
      3  update_priority with values between 0.25 and 4
    > 4  sample from elsewhere of 3"""
    )


def test_chronological_order_begins_with_the_oldest():
    explorer = prioritized()
    explorer.order = "chronological"
    assert "    ▒▒▓▓▓███\n    ^ next: row 2" in repr(explorer)


def test_the_text_is_that_of_the_moment_at_the_playhead():
    explorer = prioritized()
    explorer.t = 1
    lines = repr(explorer).splitlines()
    assert lines[0].endswith("5 of 8 rows filled, next is row 5")
    assert "    > 1  extend by 5 items: rows 0 to 4 written" in lines
    assert "Moment 1 of 4: extend by 5 items" in " ".join(words_of(explorer.to_svg()))


def words_of(svg):
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]


def test_the_legend_explains_what_the_moment_shows():
    explorer = prioritized()
    said = []
    for explorer.t in (0, 2, 4):
        words = words_of(explorer.to_svg())
        said.append([any(word.startswith(start) for word in words) for start in ("filled", "written by", "drawn (")])
    assert said == [[False] * 3, [True, True, False], [True, False, True]]
    assert [role for role, _ in legend_of(explorer.model.moments)] == ["c0", "c5", "c1", "accent", "ink", "bad"]
    assert "bad" not in dict(legend_of(explorer.model.moments[:1]))
    assert "bad" in dict(legend_of(explorer.model.moments[1:2], any_length=True))


def test_nothing_in_the_picture_is_cut():
    explorer = prioritized()
    explorer.update_priority(torch.arange(8), torch.linspace(0.0113, 0.98, 8))
    words = words_of(explorer.to_svg())
    assert not [word for word in words if "…" in word]
    for line in ("max_priority_within_buffer:", "False", "reading and writing:", "leave the data as it is"):
        assert line in words
    assert any(word.startswith("Moment 5 of 5: update_priority with values between") for word in words)


def test_the_page_jumps_to_states_by_what_was_done():
    assert buffer_payload(prioritized().model)[0]["marks"] == {
        "extend": [1, 2], "overwriting": [2], "priority": [3], "sample": [4],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("priority", "words"), [(0.5, " with the value 0.5"), ([], ""), ([3.0, 3.0], " with the value 3")]
)
def test_new_priorities_in_words(priority, words):
    explorer = prioritized()
    explorer.update_priority(torch.arange(len(priority)) if isinstance(priority, list) else 1, torch.tensor(priority))
    assert explorer.model.moments[-1].label == f"update_priority{words}"


def test_explain_says_what_is_seen():
    words = prioritized().explain()
    for part in (
        "A buffer is a ring of rows.",
        "Row 2 is the oldest and is written over next; row 1 is the newest.",
        "The arcs over the ring are trajectories",
        "A slice of 3 rows fits into 2 of 3 trajectories",
        "A number drawn between 0 and their sum, 10.25, goes down the sum tree",
        "New data goes through the transform (none) backwards and the writer (TensorDictRoundRobinWriter)",
        'The largest entry is "observation" with 64 B.',
        "The record has 5 moments.",
    ):
        assert part in words


def test_rows_of_a_ring_in_words():
    found = [rows_text(*run, 10) for run in ((9, 1), (0, 10), (9, 2), (9, 3), (3, 10))]
    assert found == ["row 9", "rows 0 to 9", "rows 9 and 0", "rows 9 and 0 to 1", "rows 3 to 9 and 0 to 2"]


def test_levels_of_the_tree_add_up():
    leaves = torch.rand(37, dtype=torch.float64).numpy()
    levels = levels_of(leaves)
    assert [len(level) for level in levels] == [1, 2, 3, 5, 10, 19, 37]
    assert all(level.sum() == pytest.approx(leaves.sum()) for level in levels)


def test_faces_are_deterministic():
    views = [(e.to_svg(), e.to_html(), repr(e), e.explain()) for e in (prioritized(), prioritized())]
    assert views[0] == views[1]


def test_what_data_says_is_text_in_every_face(tmp_path):
    bad = "<img src=x onerror=alert(1)>"
    explorer = BufferExplorer(make_buffer(6, transform=type(bad, (), {"__call__": lambda self, td: td})()))
    explorer.extend(TensorDict({bad: torch.zeros(3), "\n": torch.zeros(3)}, [3]))
    explorer.snapshot("</script><script>alert(1)</script>")
    for view in (explorer.to_svg(), explorer.to_html(), explorer._repr_mimebundle_()[0]["text/html"]):
        assert bad not in view and "<script>alert" not in view
    ElementTree.fromstring(explorer.to_svg())
    assert '"\\n"' in repr(explorer) and len(repr(explorer).splitlines()) == len(repr(explorer).split("\n"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_buffer(6),
        lambda: ReplayBuffer(storage=ListStorage(), batch_size=2),
        lambda: make_buffer(6, ndim=2),
        lambda: make_buffer(6, sampler=PrioritizedSampler(6, 0.5, 0.5)),
    ],
)
def test_an_empty_buffer_has_all_views(make):
    explorer = BufferExplorer(make())
    assert "Nothing is stored yet." in repr(explorer)
    assert "The buffer is empty." in explorer.explain()
    ElementTree.fromstring(explorer.to_svg())
    assert "Nothing is stored yet." in explorer.to_html()


def test_all_priorities_zero_are_said_to_be_so():
    explorer = prioritized()
    explorer.update_priority(torch.arange(8), 0.0)
    assert "All priorities are 0, so that nothing can be drawn. Fix: buffer.update_priority(index, 1.0)." in repr(
        explorer
    )
    ElementTree.fromstring(explorer.to_svg())


def test_the_faces_of_a_million_rows_stay_small():
    rows = 1_000_000
    torch.manual_seed(0)
    sampler = PrioritizedSampler(rows, 0.7, 0.5)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(rows), sampler=sampler, batch_size=256)
    buffer.extend(TensorDict({"a": torch.zeros(rows), "next": {"done": torch.rand(rows, 1) < 0.02}}, [rows]))
    explorer = BufferExplorer(buffer, slice_len=20)
    views = repr(explorer), explorer.to_svg(), explorer.to_html()
    explorer.sample()
    assert [len(view) < most for view, most in zip(views, (4_000, 200_000, 400_000), strict=True)] == [True] * 3
    assert "1,000,000 rows share 512 cells" in repr(explorer)
    assert re.search(r"1\d,\d{3} trajectories are too many to be drawn; their lengths are shown", repr(explorer))


def test_what_the_page_is_sent_is_bounded():
    torch.manual_seed(0)
    explorer = BufferExplorer(make_buffer(5000, sampler=PrioritizedSampler(5000, 0.7, 0.5), batch_size=64), slice_len=9)
    for _ in range(400):
        explorer.extend(TensorDict({"next": {"done": torch.rand(90, 1) < 0.05}}, [90]))
        sample = explorer.sample()
        explorer.update_priority(sample["index"], torch.rand(64))
    explorer.to_html()
    assert len(explorer.model.moments) > 30
    assert len(explorer._cells) + len(json.dumps(explorer._head)) < 350_000
    assert len(json.dumps(explorer._lists)) < 9_000
    assert len(explorer.to_svg()) < 200_000 and len(repr(explorer)) < 6_000


def test_a_moment_is_sent_as_what_changed_since_the_one_before():
    explorer = prioritized()
    explorer.extend(make_steps([2]))
    explorer.to_html()
    first, *others = explorer._head["moments"]
    assert first["size"] == explorer.model.moments[0].ring.size and "words" in first
    assert not any("size" in moment or "columns" in moment for moment in others)
    assert all("words" in moment for moment in others)


def test_lists_are_sent_once_for_all_states():
    explorer = prioritized()
    explorer.to_html()
    seen = []
    explorer.observe(lambda change: seen.append(change.name), ["_lists", "_head"])
    explorer.sample()
    explorer.to_html()
    assert seen == ["_head"]


def test_a_notebook_shows_the_current_state():
    explorer = prioritized()
    explorer.to_html()
    before = explorer._head
    explorer.sample()
    assert explorer._head is before, "without an event loop nothing updates the page"
    explorer._repr_mimebundle_()
    assert explorer._head != before


def test_equal_numbers_travel_once():
    explorer = prioritized()
    explorer.to_html()
    before = len(explorer._cells)
    for _ in range(20):
        explorer.snapshot("the same")
    explorer.to_html()
    # Only what was written and drawn differs, once.
    assert len(explorer._cells) - before < 100
