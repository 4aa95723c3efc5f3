"""A tiny exercise outside of the course, for testing the exercise machinery."""

from __future__ import annotations

from typing import Any

from exercises import Outcome, WrongAnswer, ask, exercise, require, right


@exercise(
    title="The return of an episode",
    prompt="Write `episode_return(rewards)`: the sum of a list of rewards.",
    stub="""
        def episode_return(rewards):
            ...
    """,
    solution="""
        def episode_return(rewards):
            return sum(rewards)
    """,
    hints=["No discount is asked for.", "Python has a function for it: `sum`."],
    wrong=[
        WrongAnswer("def episode_return(rewards): return None", says="It gave `None`"),
        WrongAnswer("def episode_return(rewards): return rewards[0]", says="only the first reward"),
        WrongAnswer("def episode_return(rewards): return 'six'", says="It gave a `str`"),
    ],
    seconds=1.0,
)
def demo(episode_return: Any) -> Outcome:
    """Check the sum on one list."""
    got = ask(episode_return, [1.0, 2.0, 3.0])
    require(got is not None, "It gave `None`: is there a `return`?")
    require(isinstance(got, float), f"It gave a `{type(got).__name__}`, and a return is a number.")
    require(got != 1.0, "It gave 1.0: that is only the first reward.", picture=lambda: "a picture")
    require(got == 6.0, f"It gave {got:g}.")
    return right("The return is the sum of the rewards.")
