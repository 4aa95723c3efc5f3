"""Views of the inspector: text, SVG, page and description: deterministic, escaped, and live in a browser."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from rlnb_widgets import TransformInspector
from rlnb_widgets._core.measures import text_width
from rlnb_widgets.transform_inspector import Change, Moment, inspector_model
from rlnb_widgets.transform_inspector.model import with_moment
from rlnb_widgets.transform_inspector.payload import _inwards
from rlnb_widgets.transform_inspector.scene import card_displays, chain_display, inspector_svg
from rlnb_widgets.transform_inspector.text import fate

from rlnb.envs import CartPoleEnv, GymEnv
from rlnb.envs.transforms import (
    Compose,
    ObservationNorm,
    RenameTransform,
    RewardScaling,
    RewardSum,
    StepCounter,
    Transform,
    TransformedEnv,
)
from tests.widgets.pages import settle

ROOT = "[data-rlnb]"


def made(*transforms):
    return TransformedEnv(CartPoleEnv(), Compose(*transforms))


def test_the_text_without_a_seed_has_no_values():
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(RewardSum(), RewardScaling(0.0, 2.0)))
    assert repr(TransformInspector(env)).splitlines() == [
        "TransformInspector(GymEnv, 2 transforms)",
        "box                reads     writes                                            inverse reads  inverse writes",
        "-----------------  --------  ------------------------------------------------  -------------  --------------",
        'GymEnv             "action"  "observation", "reward", "done", "terminated", …  -              -',
        '[0] RewardSum      "reward"  "episode_reward"                                  -              -',
        '[1] RewardScaling  "reward"  "reward"                                          -              -',
        "specs",
        '  [0] RewardSum: "episode_reward" new: float32 [1], any float32',
    ]


def test_values_are_part_of_the_text_with_a_seed():
    lines = repr(TransformInspector(made(RewardSum(), RewardScaling(0.0, 2.0)), seed=0)).splitlines()
    assert lines[-3:] == [
        "step 1, seed 0",
        '  [0] RewardSum: "episode_reward" new: float32 [1] 1',
        '  [1] RewardScaling: "reward" changed: float32 [1] 2',
    ]


def test_explain_says_where_the_env_is_cut():
    words = TransformInspector(made(StepCounter(), RewardSum())).explain()
    assert "env.transform[1].parent is the env cut off before that box" in words
    assert 'env.transform[1] is RewardSum: it reads "reward", writes "episode_reward".' in words


def test_hostile_keys_are_text_in_every_face():
    env = made(RenameTransform(["reward"], ["<img src=x onerror=alert(1)>"]))
    inspector = TransformInspector(env, seed=0)
    assert "<img src=x" not in inspector.to_svg() and "<img src=x" not in inspector.to_html()
    ElementTree.fromstring(inspector.to_svg())


def test_the_picture_is_the_same_each_time_and_bounded():
    env = made(*(RewardScaling(0.0, 1.0) for _ in range(60)))
    first, second = (TransformInspector(env, seed=0).to_svg() for _ in range(2))
    assert first == second and "+36 more boxes" in first and len(first) < 60_000


def test_the_picture_shows_where_parent_of_the_chosen_box_ends():
    inspector = TransformInspector(made(StepCounter(), RewardSum()), seed=0)
    found = []
    for inspector.box in (-1, 0, 1):
        words = ["".join(e.itertext()) for e in ElementTree.fromstring(inspector.to_svg()).iter()]
        found.append([text for text in words if text.endswith(".parent ends at the dashed line.")])
    assert found == [[], *([f"env.transform[{i}].parent ends at the dashed line."] for i in (0, 1))]


def test_a_box_that_failed_and_those_that_were_not_reached():
    model = inspector_model(made(StepCounter(), RewardSum(), RewardScaling(0.0, 2.0)))

    def fates(**failure):
        moment = Moment("step", "step 1", (None,) * 4, (None,) * 4, **failure)
        return [fate(model, moment, i) for i in range(-1, 3)]

    assert fates() == ["passed"] * 4
    assert fates(failed=-1) == ["failed", *["unreached"] * 3]
    assert fates(failed=1) == ["passed", "passed", "failed", "unreached"]
    assert fates(failed=1, backwards=True) == ["unreached", "unreached", "failed", "unreached"]
    assert fates(failed=3) == ["passed", "passed", "passed", "failed"], "the env around the chain"


def test_only_with_a_seed_the_picture_says_where_a_step_stopped():
    model = inspector_model(made(StepCounter(), RewardSum()), seed=0)
    model = with_moment(model, Moment("step", "step 1", (None,) * 3, (None,) * 3, failed=0, error="it broke"))
    with_seed, without = (str(inspector_svg(replace(model, seed=seed), 0, "")) for seed in (0, None))
    assert [words in with_seed for words in ("stopped here", "not reached", "it broke")] == [True] * 3
    assert [words in without for words in ("stopped here", "not reached", "it broke")] == [False] * 3


def test_three_cards_stand_side_by_side_at_480_pixels_and_none_moves(browse):
    class Break(Transform):
        def _step(self, tensordict, next_tensordict):
            raise RuntimeError

    def act(page):
        page.set_viewport_size({"width": 512, "height": 700})
        page.locator(".ti-chain").focus()
        found = []
        for key in ("End", "ArrowUp", "Home"):
            page.keyboard.press(key)
            settle(page)
            cards = page.locator(".ti-box").all()
            fates = [card.get_attribute("data-fate") for card in cards]
            found.append(([card.bounding_box() for card in cards], fates))
        name = page.locator(".ti-chain").get_by_role("option", selected=True).get_attribute("aria-label")
        return found, name, page.evaluate("document.documentElement.scrollWidth <= 512")

    found, name, fits = browse(TransformInspector(made(StepCounter(), Break(), RewardSum()), seed=0), act)
    (boxes, fates), *later = found
    assert fates == ["passed", "passed", "failed", "unreached"] and later[0][1] == ["passed"] * 4
    assert all(same == boxes for same, _ in later) and fits
    assert len({box["y"] for box in boxes[:3]}) == 1 and boxes[3]["x"] == boxes[0]["x"]
    words = ["CartPoleEnv", 'gives "observation", "reward", "done", "terminated", "truncated"', 'takes "action"']
    assert name == "\n".join(words)


def test_a_card_has_a_line_for_each_thing_that_its_box_does_and_the_room_for_all():
    model = inspector_model(made(RenameTransform(["reward"], ["a reward with a long name"]), RewardSum()))
    cards = card_displays(model)
    assert len({card.height for card in cards}) == 1
    for card in cards:
        for mark in card.marks:
            if mark["kind"] == "text":
                assert mark["y"] < card.height - 6
                assert mark["x"] + text_width(mark["text"], 11) <= 156 or "within" in mark
    words = [mark["text"] for mark in cards[1].marks if mark["kind"] == "text"]
    assert words == ["[0] RenameTransform", "reads", '"reward"', "writes", '"a reward with', 'a long name"']


def test_the_way_to_a_box_and_the_cut_before_it_stand_beside_it_where_a_row_begins_too():
    model = inspector_model(made(*[StepCounter() for _ in range(4)]))
    first, *boxes = card_displays(model)
    ways = [
        [mark["points"] for mark in card.marks if "stroke" in mark and "points" in mark] for card in (first, *boxes)
    ]
    assert ways == [[], *[ways[1]] * 4] and max(x for x, _ in ways[1][0]) < boxes[0].marks[0]["x"]
    picture = chain_display(model, chosen=3)
    cuts = [card["at"][:2] for card in picture.marks if any("dash" in mark for mark in _all(card["marks"]))]
    assert cuts == [(0, picture.height / 2 + 4)], "the fifth card is the first of the second row"


def _all(marks):
    """Return the marks that are shown, with those in groups."""
    return [mark for outer in marks if outer.get("show") != 0 for mark in (outer, *_all(outer.get("marks", ())))]


def test_a_title_ends_before_the_edge_of_its_card():
    card = card_displays(inspector_model(made(ObservationNorm(0.0, 1.0, in_keys=["observation"]))))[1]
    title = next(mark for mark in card.marks if mark.get("bold"))
    assert text_width(title["text"], 11) < title["within"], "the name is whole"
    assert title["x"] + 1.08 * title["within"] <= 160 - 6, "bold letters are wider"


def test_page_and_picture_say_the_ways_of_the_data_in_the_same_words(browse):
    inspector = TransformInspector(made(RewardScaling(0.0, 2.0), RenameTransform([], [], ["action"], ["deed"])), seed=0)
    words = browse(inspector, lambda page: page.locator(".rlnb-key li").all_inner_texts())
    assert words == ["out of the env, after each reset and step", "into the env, before each step"]
    assert all(way in inspector.to_svg() for way in words)


def test_specs_of_inputs_are_sent_as_the_data_goes_from_the_outside_in():
    turned = ("new", "removed"), ("removed", "new"), ("changed", "changed"), ("same", "same")
    for kind, sent in turned:
        assert _inwards((Change("a", kind, "inside", "outside"),)) == [["a", sent, "outside", "inside"]]


def test_the_chosen_box_is_in_sight_from_the_start(browse):
    inspector = TransformInspector(made(*(RewardScaling(0.0, 1.0) for _ in range(20))), seed=0)
    inspector.box = 19

    def act(page):
        chain, chosen = (page.locator(selector).bounding_box() for selector in (".ti-chain", '[aria-selected="true"]'))
        return chain, chosen

    chain, chosen = browse(inspector, act)
    assert chain["x"] <= chosen["x"] and chosen["x"] + chosen["width"] <= chain["x"] + chain["width"]


def test_only_the_lanes_have_arrows(browse):
    """An arrow is the way out of the env or into it; a value that changed on the way in has another sign."""

    def act(page):
        page.locator(".ti-box[data-box='0']").click()
        page.locator("[role=listbox]").press("ArrowDown")
        return page.locator("tr[data-kind='changed'] .ti-sign").all_inner_texts()

    signs = browse(TransformInspector(made(RewardScaling(0.0, 2.0)), seed=0), act)
    assert signs and set(signs) == {"~"}


def test_keys_move_through_boxes_and_moments_in_the_page(browse):
    inspector = TransformInspector(made(StepCounter(), RewardSum(), RewardScaling(0.0, 2.0)), seed=0)

    def act(page):
        page.locator(".ti-chain").focus()
        found = []
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Home", "ArrowLeft", "End", "ArrowUp", "ArrowDown"):
            page.keyboard.press(key)
            found.append((page.get_attribute(ROOT, "data-box"), page.get_attribute(ROOT, "data-moment")))
        changed = page.locator('tr[data-key=\'"reward"\'][data-kind="changed"] .ti-value').all_inner_texts()
        page.locator('.ti-box[data-box="1"]').click()
        return found, changed, page.locator(".ti-cut").inner_text(), page.get_by_role("button").count()

    found, changed, cut, buttons = browse(inspector, act)
    boxes = ["1", "2", "2", "-1", "-1", "2", "2", "2"]
    assert found == list(zip(boxes, ["1"] * 6 + ["0", "1"], strict=True))
    assert changed == ["1", "2"]
    line = "is what comes before the dashed line: CartPoleEnv with the box before this one."
    assert cut == f"env.transform[1].parent {line}"
    assert buttons == 2, "keys and whole window: a page without a kernel offers no step and no reset"
