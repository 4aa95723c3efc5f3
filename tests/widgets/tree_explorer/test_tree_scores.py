"""The score of each rule: computed from columns as the rule computes it, and written out with its numbers."""

# Formulas have Greek letters and true minus signs.
# ruff: noqa: RUF001

from __future__ import annotations

import base64
import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rlnb_widgets.tree_explorer import tree_model
from rlnb_widgets.tree_explorer.js_formulas import FILE, Symbol, score_formulas_js
from rlnb_widgets.tree_explorer.model import rewound
from rlnb_widgets.tree_explorer.payload import tree_payload
from rlnb_widgets.tree_explorer.scores import filled, rule_facts, scores

from rlnb.envs import TicTacToeEnv
from rlnb.search import EXP3, MCTS, PUCT, UCB1, Gumbel, UCB1Tuned
from tests.pairwise import sampled
from tests.widgets.tree_explorer.conftest import (
    RULES,
    batched_search,
    cartpole_search,
    endgame_search,
    learned_search,
    search_of,
)
from tests.widgets.tree_explorer.pages import MINUS

SCRIPT = Path(__file__).with_name("page_scores.mjs")


def rule_scores(search, index, node):
    """What the rule itself says of the legal actions of a node."""
    row = index * search.nodes.capacity + node
    found = search.rule.scores(search.nodes, np.array([row]))[0]
    return found[search.nodes.legal[index, node]]


def evaluated(text):
    """The value of a formula with its numbers filled in, as a reader computes it."""
    left = text.split(";  ")[-1].rpartition(" = ")[0].replace(MINUS, "-")
    left = re.sub(r"ln ([\d.e-]+)", r"log(\1)", left).replace("ln (", "log(")
    left = left.replace("√(", "sqrt(").replace("·", "*").replace("¼", "0.25")
    return eval(left, {"__builtins__": {}}, {"log": math.log, "sqrt": math.sqrt, "min": min})


MAKES = {
    "rollouts": search_of,
    "network and noise": learned_search,
    "three roots": batched_search,
    "one player": lambda rule: cartpole_search(12, rule),
}
RULES_OF_SEARCHES = sampled(MAKES.keys(), RULES.keys(), strength=1)


@pytest.mark.parametrize(("make", "rule"), RULES_OF_SEARCHES)
def test_the_scores_of_every_node_are_those_of_the_rule(rule, make):
    search = MAKES[make](RULES[rule]())
    index = search.nodes.batch - 1
    model = tree_model(search, index)
    for node in range(len(model.nodes)):
        if model.nodes.terminal[node]:
            assert len(model.edges.of(node)) == 0
            continue
        found = scores(model, node)
        assert found is not None
        np.testing.assert_allclose(found.score, rule_scores(search, index, node), rtol=1e-10, atol=1e-12)


def test_gumbel_with_a_solver_scores_less_by_values_below_the_root():
    search = MCTS(TicTacToeEnv(), rule=RULES["Gumbel"](), solver=True, seed=0).reset().run(60)
    model = tree_model(search)
    assert model.rule.letters.endswith("; below the root c_scale is multiplied by 0.2")
    compared = 0
    for node in range(1, len(model.nodes)):
        legal = search.nodes.legal[0, node]
        if len(model.edges.of(node)) and (search.nodes.open[0, node] == legal).all():
            np.testing.assert_allclose(scores(model, node).score, rule_scores(search, 0, node), rtol=1e-10, atol=1e-12)
            compared += 1
    assert compared > 10


@pytest.mark.parametrize(("make", "rule"), RULES_OF_SEARCHES)
def test_the_formula_filled_in_gives_the_score_of_the_rule(rule, make):
    search = MAKES[make](RULES[rule]())
    index = search.nodes.batch - 1
    model = tree_model(search, index)
    read = 0
    for node in range(len(model.nodes)):
        for edge, score in zip(model.edges.of(node), rule_scores(search, index, node), strict=False):
            text = filled(model, node, edge)
            if score == math.inf:
                assert text == "never taken: tried before all others"
            elif score == -math.inf:
                assert re.fullmatch(r"tried \d+ times; not compared in this round of the halving", text)
            else:
                assert float(text.rpartition(" = ")[2].replace(MINUS, "-")) == pytest.approx(score, rel=1e-3, abs=1e-9)
                assert evaluated(text) == pytest.approx(score, rel=5e-3, abs=5e-3), text
                read += 1
    assert read > 10


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (UCB1(), "0.6 + 1.414 · √(ln 31 / 5) = 1.772"),
        (PUCT(base=100.0), "0.375 + (1.25 + ln ((31 + 100 + 1) / 100)) · 0.1111 · √(31) / (1 + 8) = 0.48"),
        (UCB1Tuned(), "V = 1 − 1 + √(2 · ln 31 / 6) = 1.07;  1 + √(ln 31 / 6 · min(¼, 1.07)) = 1.378"),
    ],
)
def test_a_formula_as_it_is_written(rule, text):
    assert filled(tree_model(search_of(rule)), 0, 0) == text


@pytest.mark.parametrize(
    ("low", "high", "formula"),
    [
        (-1, 1, "Q + c · √(ln N / n)"),
        (-2, 2, "Q / 2 + c · √(ln N / n)"),
        (0, 50, "(Q − 25) / 25 + c · √(ln N / n)"),
        (-3, -1, "(Q + 2) + c · √(ln N / n)"),
    ],
)
def test_the_formula_says_how_values_are_mapped(low, high, formula):
    rule = UCB1()
    rule.low, rule.high = low, high
    assert rule_facts(rule, 0, np.zeros(2), 2).formula == formula


def test_the_page_gets_the_formulas_of_the_text():
    for make in RULES.values():
        model = tree_model(search_of(make()))
        sent = tree_payload(model)[0]["rule"]
        assert sent["formula"] == model.rule.formula and sent["letters"] == model.rule.letters
        assert [sent["atRoot"], sent["variance"]] == [model.rule.at_root, model.rule.variance]


def test_another_constant_changes_the_scores_and_not_the_search():
    search = search_of(UCB1(c=1.0))
    model = tree_model(search)
    mine, more = scores(model, 0), scores(model, 0, c=2.0)
    assert np.allclose(more.bonus, 2 * mine.bonus) and np.array_equal(more.value, mine.value)
    assert search.rule.c == 1.0 and "+ 2 ·" in filled(model, 0, 0, c=2.0)


@pytest.mark.parametrize(("name", "c"), [("PUCT", 3.5), ("UCB1Tuned", 0.2), ("EXP3", 0.9), ("Gumbel", 0.7)])
def test_another_constant_is_what_a_rule_with_it_says(name, c):
    search = learned_search(RULES[name]())
    model = tree_model(search)
    setattr(search.rule, model.rule.c_name, c)
    for node in range(8):
        np.testing.assert_allclose(scores(model, node, c).score, rule_scores(search, 0, node), rtol=1e-10)


@pytest.mark.parametrize("rule", ["UCB1", "UCB1Tuned", "PUCT", "EXP3", "Gumbel"])
def test_the_scores_before_some_simulations_are_those_that_the_rule_gave_then(rule):
    search = learned_search(RULES[rule](), 24)
    model = tree_model(search)
    for t in (23, 12, 3):
        while search.history.position > t:
            search.back()
        then = rewound(model, t)
        for node in range(len(then.nodes)):
            if not then.nodes.terminal[node]:
                np.testing.assert_allclose(scores(then, node).score, rule_scores(search, 0, node), rtol=1e-10)


def test_facts_of_the_rules():
    facts = {name: tree_model(search_of(make())).rule for name, make in RULES.items()}
    assert (facts["UCB1"].c_name, facts["UCB1"].c, facts["UCB1"].c_high) == ("c", 0.7, 4.0)
    assert (facts["EXP3"].c_name, facts["EXP3"].c, facts["EXP3"].c_high) == ("gamma", 0.3, 1.0)
    assert (facts["Gumbel without noise"].c_name, facts["Gumbel without noise"].c) == ("c_scale", 0.5)
    assert facts["Gumbel without noise"].draws == (0.0,) * 9
    assert facts["PUCT with a base"].params == {"low": -1.0, "high": 1.0, "base": 100.0, "first_play": 0.0}
    assert facts["UCB1"].text == "UCB1(c=0.7)"
    assert tree_model(search_of(UCB1(c=5.0))).rule.c_high == 10.0


def test_gumbel_after_an_advance_counts_from_the_visits_that_were_kept():
    search = learned_search(Gumbel(simulations=24, considered=4), 24)
    search.advance(int(search.best_action)).run(simulations=7, record=True)
    model = tree_model(search)
    assert sum(model.rule.before) > 0
    np.testing.assert_allclose(scores(model, 0).score, rule_scores(search, 0, 0), rtol=1e-10)
    assert model.best == int(search.best_action)


def test_a_tree_has_no_scores():
    model = tree_model(search_of().tree())
    assert scores(model, 0) is None and filled(model, 0, 0) == ""


def test_a_rule_of_ones_own_is_shown_as_it_scores():
    class Mine(PUCT):
        pass

    search = search_of(Mine())
    model = tree_model(search)
    assert np.array_equal(scores(model, 0).score, rule_scores(search, 0, 0))
    assert filled(model, 0, 0).startswith("Mine scores ")
    assert np.isnan(scores(rewound(model, 3), 0).score).all()


def test_a_single_legal_action_and_an_end():
    for make in (EXP3, UCB1Tuned, PUCT):
        search = endgame_search()
        search = type(search)(search.game, rule=make(), solver=False, seed=0).reset(
            search.game.observe(search.nodes.states[0, :1])[0]
        )
        search.run(simulations=30)
        model = tree_model(search)
        for node in np.flatnonzero(~model.nodes.terminal):
            np.testing.assert_allclose(scores(model, int(node)).score, rule_scores(search, 0, int(node)), rtol=1e-10)


def test_the_page_computes_the_formulas_of_the_library():
    assert FILE.read_text(encoding="utf-8") == score_formulas_js(), (
        "A formula has changed. Fix: python -m rlnb_widgets.tree_explorer.js_formulas"
    )
    half = Symbol("x") / 2
    assert (1 - half).text == "(1 - (x / 2))" and (2 * half - 1).text == "((2 * (x / 2)) - 1)"
    assert half.clip(0.5, math.inf).text == "Math.max((x / 2), 0.5)"


SEARCHES = {
    **{name: (lambda make=make: learned_search(make())) for name, make in RULES.items()},
    "Gumbel with a solver": lambda: MCTS(TicTacToeEnv(), rule=RULES["Gumbel"](), solver=True, seed=0).reset().run(60),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_the_page_computes_and_writes_the_scores_of_the_library(search: str, node: str) -> None:
    model = tree_model(SEARCHES[search]())
    head, columns = tree_payload(model)
    constants = [model.rule.c, 0.3 * model.rule.c]
    asked = json.dumps({"head": head, "columns": base64.b64encode(columns).decode(), "constants": constants})
    done = subprocess.run([node, SCRIPT], input=asked, capture_output=True, text=True, timeout=60, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for c, of_nodes in zip(constants, json.loads(done.stdout), strict=True):
        assert len(of_nodes) == len(model.nodes) > 10
        for number, rows in enumerate(of_nodes):
            found = [float(score) for score, _ in rows]
            np.testing.assert_allclose(
                found, scores(model, number, c).score, rtol=1e-6, atol=1e-6
            )  # priors are float32
            for score, (_, formula) in zip(found, rows, strict=True):
                if math.isfinite(score):
                    assert evaluated(f"{formula} = ") == pytest.approx(score, abs=0.03), formula
