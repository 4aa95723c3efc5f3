"""Errors in cells: the message first, a suggestion, the learner's own lines, and no library frames."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from rlnb_widgets import explain_errors
from rlnb_widgets.short_tracebacks import short_traceback
from tensordict import TensorDict

from rlnb.envs import CartPoleEnv, GymEnv

ANSI = re.compile(r"\x1b\[[0-9;]*m")
NAMES = {"TensorDict": TensorDict, "torch": torch}


def raised(source: str, **names: Any) -> str:
    """The text for an error of a cell with this source."""
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(keepends=True), "<cell>")
    try:
        exec(compile(source, "<cell>", "exec"), {"__name__": "__main__", **NAMES, **names})
    except Exception as error:
        return ANSI.sub("", "".join(short_traceback(error, error.__traceback__, lambda name: ("Cell", "In[1]"))))
    raise AssertionError("the cell raised nothing")


@pytest.fixture(scope="module")
def env() -> GymEnv:
    return GymEnv("CartPole-v1")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('td["reward"]', 'The results of a step are under "next". Fix: td["next", "reward"].'),
        ('td["obs"]', "The nearest name is 'observation'. Fix: td[\"observation\"]."),
        ('td["next", "obs"]', 'Fix: td["next", "observation"].'),
        ('td["next"]["obs"]', 'Fix: td["observation"].'),
        ('td.get("reward").sum()', None),
        ('def ret(td):\n    return td["reward"].sum()\nret(td)', 'Fix: td["next", "reward"].'),
        ("obs, info = env.reset()", 'Fix: td = env.reset(), then td["observation"].'),
        ("obs, reward, done, over, info = env.step(env.rand_action(env.reset()))", 'td["next", "reward"].'),
        ('{}["reward"]', None),
        ("a, b = 1, 2, 3", None),
        ("a, b = env.fetch()", None),
    ],
)
def test_a_common_mistake_gets_a_proposal(env: GymEnv, source: str, says: str | None) -> None:
    text = raised(source, env=env, td=env.rollout(3))
    if says is None:
        assert "Fix:" not in text
    else:
        assert says in text.split("Cell In[1]")[0]


def test_the_message_comes_first_and_libraries_are_folded(env: GymEnv) -> None:
    text = raised("td = env.reset()\nfor _ in range(2):\n    td = env.step(1)\nprint(td)", env=env)
    head, _, rest = text.partition("\nCell In[1], line 3\n")
    assert re.match(r"\w+Error: .*(step|TensorDict)", head)
    assert rest.startswith(
        "      1 td = env.reset()\n      2 for _ in range(2):\n----> 3     td = env.step(1)\n      4 print(td)"
    )
    assert re.search(r"\(\d+ calls? inside of libraries below that line: %tb shows them\)\n$", rest)
    assert ".py" not in text and "site-packages" not in text


def test_functions_of_the_learners_are_all_shown() -> None:
    text = raised("def half(x):\n    return x / 0\n\nhalf(2)")
    assert text == (
        "ZeroDivisionError: division by zero\n"
        "Cell In[1], line 4\n      2     return x / 0\n      3 \n----> 4 half(2)\n"
        "Cell In[1], line 2, in half\n      1 def half(x):\n----> 2     return x / 0\n      3 \n"
    )


def test_texts_are_bounded_and_printable() -> None:
    assert len(raised("raise ValueError('x' * 10**6)")) < 3000
    assert "ValueError: a\\x1b[31m" in raised("raise ValueError('a\\x1b[31m')")
    odd = "class Odd(Exception):\n  def __str__(self): raise ValueError\nraise Odd"
    assert "Odd: (its text cannot be shown: its __str__ raises an error)" in raised(odd)


def test_a_learners_objects_cannot_hide_the_error() -> None:
    class Odd(CartPoleEnv):
        def __getattribute__(self, name: str) -> Any:
            if name == "full_observation_spec":
                raise RuntimeError
            return super().__getattribute__(name)

    assert raised("obs, info = env.reset()", env=Odd()).startswith("TypeError: ")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    made = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: made)
    return made


def test_the_hook_is_installed_and_taken_off(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("1 / 0")
    assert "Traceback (most recent call last)" in capsys.readouterr().out
    explain_errors()
    shell.run_cell("__name__ = '__main__'\n1 / 0")
    text = ANSI.sub("", capsys.readouterr().out)
    assert text.startswith("ZeroDivisionError: division by zero\n") and "Traceback" not in text
    assert re.search(r"In\[\d*\].*line 2\n {6}1 __name__ = '__main__'\n----> 2 1 / 0", text)
    shell.run_line_magic("tb", "")
    assert "Traceback (most recent call last)" in capsys.readouterr().out
    explain_errors(False)
    shell.run_cell("1 / 0")
    assert "Traceback (most recent call last)" in capsys.readouterr().out


def test_outside_of_ipython_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    explain_errors()
