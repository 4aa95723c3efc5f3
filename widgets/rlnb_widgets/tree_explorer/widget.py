"""The live tree explorer: a widget that shows a search tree and lets it grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import traitlets

from rlnb.data.map.tree.node import Tree
from rlnb.search.mcts import MCTS
from rlnb_widgets._core.environments import check_env
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.tree_explorer.arguments import check_index, check_names, check_source, node_of, source_batch, whole
from rlnb_widgets.tree_explorer.compare import Comparison, compared, same_numbers
from rlnb_widgets.tree_explorer.model import read, rewound, tree_model
from rlnb_widgets.tree_explorer.payload import able, first_nodes, tree_payload
from rlnb_widgets.tree_explorer.positions import PositionDrawer, labeller, observer
from rlnb_widgets.tree_explorer.read_search import MOST_RECORDS
from rlnb_widgets.tree_explorer.scene import tree_svg
from rlnb_widgets.tree_explorer.schema import TreeModel
from rlnb_widgets.tree_explorer.text import tree_text
from rlnb_widgets.tree_explorer.words import tree_explanation

_HERE = Path(__file__).parent
_VIEWS = ("tree", "icicle")
#: Number of positions that are sent with the page, and the most that are kept there.
_AT_ONCE, _MOST_SENT = 200, 600
_DOES = ("step", "back", "run", "advance", "refresh")


class TreeExplorer(TimeTraits, Visualizer):
    """Shows the tree of a search, or any :class:`~rlnb.data.Tree`, and how the search built it.

    The tree is drawn with the principal variation open, and as a whole in an icicle. The area of a node shows its
    visits, its colour the value, the width of a line the visits that went along it, and a ring the end of an episode.
    A node with several parents is drawn once. For the selected node the explorer shows the board or observation, and
    for its actions N, W, Q, P, U and the score, with the formula and its numbers filled in. A slider changes the
    exploration constant of these scores; the search keeps its own.

    Recorded simulations (``search.step()``, or ``search.run(..., record=True)``) can be played phase by phase, forwards
    and backwards, with every number that changed. This needs no kernel. With a kernel, :meth:`step`, :meth:`back`,
    :meth:`run` and :meth:`advance` control the search, from Python or by buttons.

    Keys: the arrows move to parent, child and siblings, Home and End along the principal variation, Enter folds, space
    plays, Page Up and Page Down move by one simulation, ``,`` and ``.`` by one phase, ``/`` searches for a path.

    Args:
        tree: A :class:`~rlnb.search.MCTS` with roots, or a :class:`~rlnb.data.Tree`. Showing it does not change it.
        other: A second tree with the same actions, to compare.
        env: The env that draws the nodes, or its id. Default: the env of the search.
        index: Index of a root of the search; of ``other`` as well, if it has the same number of roots.
        labels: Function that maps a node, as a ``Tree``, to a text that is shown with it.
        actions: Names of the actions, in order.
        names: Names of the tree and of ``other``, such as ``("trained", "untrained")``.

    Attributes:
        tree: The tree that is shown.
        other: The tree that it is compared with.
        model: The plain values that are shown, a `TreeModel`.
        selection: The selected node. Nodes of a search have its numbers.
        c: The exploration constant of the scores that are shown.
        t: Number of recorded simulations up to the playhead.

    Raises:
        TypeError: If `tree` or `other` is neither a search nor a Tree, or another argument has the wrong type.
        ValueError: If a search has no root, the trees have different actions, or ``names`` are not two different texts.
        IndexError: If there is no such root.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> explorer = TreeExplorer(MCTS(TicTacToeEnv(), seed=0).reset())
        >>> explorer.run(40)
        >>> print(repr(explorer).splitlines()[0])
        TreeExplorer: MCTS, 41 nodes, depth 2, 41 visits, UCB1(c=1.414)
        >>> explorer.select([4, 0])
        12
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")

    selection = traitlets.Int(0).tag(sync=True)
    c = traitlets.Float(0.0).tag(sync=True)
    view = traitlets.Enum(_VIEWS, default_value=_VIEWS[0]).tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)
    _head = traitlets.Dict().tag(sync=True)
    _columns = traitlets.Bytes().tag(sync=True)
    _boards = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        tree: Any,
        *,
        other: Any = None,
        env: Any = None,
        index: int = 0,
        labels: Callable[[Tree], str] | None = None,
        actions: Sequence[Any] | None = None,
        names: tuple[str, str] | None = None,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        check_source(tree)
        check_index(tree, index)
        if other is not None:
            check_source(other, "other")
        if env is not None:
            check_env(env)
        if labels is not None and not callable(labels):
            raise TypeError(
                f"labels must be a function that maps a node, which is a Tree, to text, got a {type(labels).__name__}. "
                "Fix: labels=lambda node: str(node.visits)."
            )
        self._tree_names = check_names(names, other)
        self.tree, self.other, self._index, self._names = tree, other, index, actions
        self._env = getattr(tree.game, "env", None) if env is None and isinstance(tree, MCTS) else env
        self._labels = labels
        self._advanced: tuple[int, int, int] | None = None
        self._answers = 0
        self._read()
        rule = self._model.rule
        super().__init__(length=1, fps=1.0, c=0.0 if rule is None else rule.c)
        self._send_state()
        self.on_msg(self._on_message)

    # The search -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Run one simulation, or redo the one that was undone last.

        Raises:
            TypeError: If a Tree is shown.
            RuntimeError: If all roots are terminal.
        """
        self._search("step").step()
        self.refresh()

    def back(self) -> None:
        """Undo the last recorded simulation.

        Raises:
            TypeError: If a Tree is shown.
            RuntimeError: If no simulation is recorded.
        """
        self._search("back").back()
        self.refresh()

    def run(self, n: int) -> None:
        """Run simulations, and record the last of them.

        Args:
            n: Number of simulations.

        Raises:
            TypeError: If a Tree is shown.
            ValueError: If ``n`` is not a positive integer.
            RuntimeError: If all roots are terminal.
        """
        search = self._search("run")
        n = whole(n, f"run(n) takes a positive number of simulations, got {n!r}. Fix: explorer.run(100).", least=1)
        try:
            # Only this many records are shown, and a record takes much more memory than a node.
            if n > MOST_RECORDS:
                search.run(simulations=n - MOST_RECORDS)
            if not search.interrupted or n <= MOST_RECORDS:
                search.run(simulations=min(n, MOST_RECORDS), record=True)
        finally:
            self.refresh()

    def advance(self, action: int) -> None:
        """Take an action at the root and keep its subtree. Other roots of the search take their best action.

        Args:
            action: The action.

        Raises:
            TypeError: If a Tree is shown.
            ValueError: If ``action`` is not an integer, or illegal.
        """
        search = self._search("advance")
        action = whole(
            action,
            f"advance(action) takes the number of an action, got {action!r}. "
            "Fix: explorer.advance(explorer.model.best).",
        )
        before = int(search.nodes.count[self._index])
        chosen = np.asarray(search.best_action).reshape(-1).copy()
        chosen[self._index] = action
        search.advance(chosen)
        self._advanced = (action, before, int(search.reused[self._index]))
        self.refresh()

    def refresh(self) -> None:
        """Show the tree as it is now, after it was changed by other code."""
        before = self._model
        self._read()
        grown = same_numbers(before, self._model)
        if not grown:
            self.selection = 0
        self._send_state(grown)

    def select(self, where: int | Sequence[int | str]) -> int:
        """Select a node.

        Args:
            where: The number of the node, or the path of actions from the root, by number or by name.

        Returns:
            The number of the node.

        Raises:
            IndexError: If there is no such node, or the path leaves the tree.
        """
        self.selection = node_of(self.model, where)
        return self.selection

    def _search(self, what: str) -> MCTS:
        if not isinstance(self.tree, MCTS):
            raise TypeError(
                f"{what} needs a search, and this explorer shows a Tree, which cannot be searched further. "
                "Fix: TreeExplorer(search), with search an MCTS."
            )
        return self.tree

    # What is shown ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> TreeModel:
        """The plain values that are shown, of the tree after all recorded simulations."""
        if self._stamp != self._now():
            self.refresh()
        return self._model

    @property
    def comparison(self) -> Comparison | None:
        """The comparison with the other tree."""
        _ = self.model
        return self._comparison

    def _now(self) -> tuple[Any, ...]:
        """Return a stamp that changes when a search has run since it was read."""
        found: list[Any] = []
        for given in (self.tree, self.other):
            if isinstance(given, MCTS):
                tree, history = given.nodes, given.history
                found += [id(tree), tree.count.sum(), given.simulations, history.position, tree.visits[:, 0].sum()]
        return tuple(found)

    def _read(self) -> None:
        """Read the trees. If that fails, the explorer stays unchanged."""
        stamp = self._now()
        model, node_at = read(self.tree, self._index, self._names)
        comparison = None
        if self.other is not None:
            index = self._index if source_batch(self.other) == source_batch(self.tree) else 0
            comparison = compared(model, tree_model(self.other, index, self._names), self._tree_names)
        if self._advanced is not None and model.reused == self._advanced[2] > 0:
            model = replace(model, advanced=self._advanced[:2])
        observe = observer(self.tree, self._index, node_at)
        positions = PositionDrawer(observe, self._env, model.nodes.parent, labeller(self._labels, node_at))
        if positions.note:
            model = replace(model, notes=(*model.notes, positions.note))
        self._model, self._comparison, self._positions, self._stamp = model, comparison, positions, stamp

    def _send_state(self, grown: bool = False) -> None:
        """Send the current state to the page; ``grown`` if the nodes that the page has keep their numbers."""
        head, columns = tree_payload(self._model, self._comparison)
        records, scene = self._model.records, self._positions.scene
        self._answers += 1
        with self.hold_sync():
            self._head = {
                **head,
                "scene": None if scene is None else scene.to_dict(),
                "can": able(self.tree, self._index),
                "problem": "",
                "answer": self._answers,
                "grown": grown,
            }
            self._label = f"TreeExplorer: {head['words']['headline']}"
            self._columns = columns
            self._boards = self._positions.describe(first_nodes(self._model, _AT_ONCE))
            self.length = 1 if records is None else len(records) + 1
            self.t = self.length - 1
            self.selection = min(self.selection, len(self._model.nodes) - 1)

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Do what a button asks for; show an error in the page, since a click has no traceback."""
        what = content.get("do") if isinstance(content, dict) else None
        if what not in _DOES:
            return
        given = {"run": ["n"], "advance": ["action"]}.get(what, [])
        try:
            getattr(self, what)(*(content.get(name) for name in given))
        except Exception as error:
            self._answers += 1
            self._head = {**self._head, "problem": str(error), "answer": self._answers}

    @traitlets.validate("selection")
    def _node_in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), len(self._model.nodes) - 1))

    @traitlets.validate("c")
    def _constant(self, proposal: Any) -> float:
        value = float(proposal["value"])
        if not 0 <= value < float("inf"):
            raise traitlets.TraitError(f"c, the exploration constant, must be a number of at least 0, got {value}.")
        return value

    @traitlets.observe("selection")
    def _on_selection(self, change: Any) -> None:
        """Send the position of the selected node, if the page does not have it."""
        model = self.model
        if str(self.selection) in self._boards or self.selection >= len(model.nodes):
            return
        known = dict(self._boards) if len(self._boards) < _MOST_SENT else {}
        self._boards = {**known, **self._positions.describe([self.selection])}

    # Views -----------------------------------------------------------------------------------------------------------

    def _shown(self) -> TreeModel:
        """Return the tree at the playhead."""
        return rewound(self.model, self.t)

    def _text(self) -> str:
        return tree_text(self._shown(), self.model, self._comparison, self.t, self.c)

    def _svg(self) -> Svg:
        return tree_svg(self._shown(), self._comparison, self._positions, self._explain())

    def _explain(self) -> str:
        return tree_explanation(self._shown(), self.model, self._comparison, self.t)

    def _update_page(self) -> None:
        _ = self.model  # which sends the tree, if it has changed
