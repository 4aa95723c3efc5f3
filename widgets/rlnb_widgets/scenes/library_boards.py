"""Scenes of the board games of other libraries: Board, with a reader of their observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets.scenes.board import Board
from rlnb_widgets.scenes.pieces import Piece, PieceBoard
from rlnb_widgets.scenes.scene import Scene


class LibraryBoard:
    """Draws the observations of the player who moves first, which have a plane of cells for each kind of piece.

    Args:
        board: draws the positions.
        axis: the axis of the planes, 0 or -1.
        planes: the planes of the pieces, in the order in which the board numbers them.
        path: the entry of the observation in that of a group.
        turn: changes an array of cells ``[..., rows, columns]`` as the picture needs it. Default: not at all.

    Example:
        >>> spec = LibraryBoard(Board(), axis=0, planes=(2, 1))
        >>> planes = np.zeros((1, 2, 3, 3, 3))
        >>> planes[0, :, 2, 0, 1] = 1
        >>> spec.pose(planes).caption_at(0)
        '. X . / . . . / . . .; O to move'
    """

    def __init__(
        self,
        board: Board | PieceBoard,
        *,
        axis: int,
        planes: tuple[int, ...],
        path: tuple[str, ...] = ("observation",),
        turn: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None,
    ) -> None:
        self.board, self.axis, self.planes, self.path, self.turn = board, axis, planes, path, turn
        self.agent = 0
        self.reads: tuple[tuple[str, ...], ...] = (("agents", *path),)
        self.acts: tuple[str, ...] = ("agents", "action")

    def for_env(self, env: Any) -> LibraryBoard:
        """Return the scene that reads the group of the first player of `env`."""
        first = env.agent_names[0] if hasattr(env, "agent_names") else env.possible_agents[0]
        group, names = next((group, names) for group, names in env.group_map.items() if first in names)
        board, reads = self.board, (group, *self.path)
        if isinstance(board, PieceBoard):
            shape = env.observation_spec[reads].shape[-3:]
            board = board.sized(*(shape[1:] if self.axis == 0 else shape[:2]))
        found = LibraryBoard(board, axis=self.axis, planes=self.planes, path=self.path, turn=self.turn)
        found.agent, found.reads = names.index(first), (reads,)
        # The moves of both players are drawn if they are in one entry, in their order.
        both = len(names) == 2 and not found.agent and isinstance(board, Board)
        found.acts = (group, "action" if both else "no action")
        return found

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of observations ``[N, n_players, ...]``, with the actions of those who move, if given."""
        seen = np.moveaxis(np.asarray(observations)[:, self.agent], self.axis + (1 if self.axis >= 0 else 0), 1)
        pieces = seen[:, list(self.planes)] > 0.5
        boards = np.where(pieces.any(1), pieces.argmax(1), -1)
        cells = boards if self.turn is None else self.turn(boards)
        return self.board.pose(cells, None if actions is None else self._moves(np.asarray(actions), boards))

    def _moves(self, actions: npt.NDArray[Any], boards: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the action of the player whose turn it is, as it counts in the picture."""
        mover = (boards >= 0).sum((1, 2))[: len(actions)] % 2
        chosen = actions[np.arange(len(actions)), mover]
        found = chosen if chosen.ndim == 1 else np.where(chosen.any(-1), chosen.argmax(-1), np.nan)
        if self.turn is None or (isinstance(self.board, Board) and self.board.drops):
            return np.asarray(found, np.float64)
        places = self.turn(np.arange(boards[0].size).reshape(boards[0].shape)).ravel()
        index = np.nan_to_num(found).astype(np.int64)
        return np.where(np.isnan(found), np.nan, np.argsort(places)[index])


def _upside_down(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return cells[..., ::-1, :]


def _transposed(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return cells.swapaxes(-1, -2)


_FOUR = Board(6, 7, 4, drops=True)
_PETTINGZOO: dict[str, Any] = {"axis": -1, "planes": (0, 1), "path": ("observation", "observation")}
_STONES = Piece(0, "x"), Piece(1, "o")
_CHESS = tuple(
    Piece(player, letter if player else letter.lower(), sign + "\ufe0e")  # the sign as text, not as a picture
    for letter, sign in zip("KQRBNP", "♚♛♜♝♞♟", strict=True)
    for player in (1, 0)  # White moves first and is player 1
)
_MEN = Piece(0, "o"), Piece(0, "K", "K"), Piece(1, "+"), Piece(1, "k", "K")

LIBRARY_BOARDS = {
    # PettingZoo counts cells down the columns. Its chess and Go have no drawing: what a player observes there is a move
    # behind, and planes change sides.
    "pettingzoo/connect_four_v3": LibraryBoard(_FOUR, **_PETTINGZOO),
    "pettingzoo/tictactoe_v3": LibraryBoard(Board(), turn=_transposed, **_PETTINGZOO),
    # The first row of many games of OpenSpiel is the lowest one.
    "pyspiel/breakthrough": LibraryBoard(PieceBoard(8, 8, _STONES, "checkered"), axis=0, planes=(0, 1)),
    "pyspiel/checkers": LibraryBoard(PieceBoard(8, 8, _MEN, "checkered"), axis=0, planes=(0, 1, 2, 3)),
    "pyspiel/chess": LibraryBoard(
        PieceBoard(8, 8, _CHESS, "checkered"), axis=0, planes=tuple(range(12)), turn=_upside_down
    ),
    "pyspiel/connect_four": LibraryBoard(_FOUR, axis=0, planes=(0, 1), turn=_upside_down),
    "pyspiel/go": LibraryBoard(PieceBoard(19, 19, _STONES, "crossings"), axis=0, planes=(0, 1), turn=_upside_down),
    "pyspiel/othello": LibraryBoard(PieceBoard(8, 8, _STONES, upwards=False), axis=0, planes=(1, 2)),
    "pyspiel/tic_tac_toe": LibraryBoard(Board(), axis=0, planes=(2, 1)),
}
"""The scenes by library and game."""
