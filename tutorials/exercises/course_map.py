"""Map of the course: its lessons by track, with their times and the lessons that each one needs."""

from __future__ import annotations

from dataclasses import dataclass

from rlnb_widgets._core.svg import Svg, image_tag

_COLUMNS, _WIDE, _TALL, _GAP, _EDGE, _HEAD = 4, 148, 46, 14, 8, 30


@dataclass(frozen=True)
class Lesson:
    """A lesson of the course.

    Args:
        name: stem of the notebook's file name.
        title: title in a few words, as on the map.
        minutes: time it takes, exercises included.
        needs: numbers of the lessons that come before it.
    """

    name: str
    title: str
    minutes: int
    needs: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        """Number of the lesson: the first two digits of the file's name."""
        return int(self.name[:2])


@dataclass(frozen=True)
class Track:
    """Lessons that belong together, in order; ``role`` is the colour of their edges on the map."""

    title: str
    role: str
    lessons: tuple[Lesson, ...]

    @property
    def minutes(self) -> int:
        """Time that all lessons of the track take together."""
        return sum(lesson.minutes for lesson in self.lessons)


TRACKS = (
    Track(
        "The spine: agents that learn",
        "c0",
        (
            Lesson("00_welcome", "Welcome", 10),
            Lesson("01_rollouts_and_ted", "Rollouts and TED", 40, (0,)),
            Lesson("02_the_whole_game", "The whole game", 20, (1,)),
            Lesson("03_bandits", "Bandits", 40, (1,)),
            Lesson("04_bellman", "Bellman", 50, (1,)),
            Lesson("05_monte_carlo_and_td", "Monte Carlo and TD", 50, (3, 4)),
            Lesson("06_sarsa_and_q_learning", "SARSA, Q-learning", 40, (3, 5)),
            Lesson("07_dqn", "DQN", 50, (2, 6)),
            Lesson("08_actor_critic", "Actor-critic", 60, (2, 5)),
            Lesson("09_ppo", "PPO", 50, (8,)),
            Lesson("10_sac", "SAC", 50, (7, 8)),
        ),
    ),
    Track(
        "The library: environments, data, buffers",
        "c2",
        (
            Lesson("20_specs", "Specs", 40, (1,)),
            Lesson("21_environments", "Environments", 50, (20,)),
            Lesson("22_own_environment", "Own environment", 40, (21,)),
            Lesson("23_ted_in_depth", "TED in depth", 50, (21,)),
            Lesson("24_agents_and_games", "Agents and games", 50, (21, 23)),
            Lesson("25_batched_environments", "Batched envs", 50, (21,)),
            Lesson("26_transforms", "Transforms", 60, (21,)),
            Lesson("27_replay_buffers", "Replay buffers", 50, (23, 26)),
            Lesson("28_prioritized_and_slices", "Prioritized, slices", 50, (27,)),
            Lesson("29_checkpoints", "Checkpoints", 40, (27,)),
            Lesson("30_tensordict_from_nothing", "TensorDict", 40, (1,)),
            Lesson("31_stacks_views_and_memory", "Stacks and memory", 50, (30,)),
            Lesson("32_dreaming", "Dreaming", 40, (22,)),
            Lesson("33_collecting", "Collecting", 40, (9, 25)),
            Lesson("34_six_worlds", "Six worlds, optional", 30, (21, 24)),
            Lesson("35_offline", "Offline learning", 50, (7, 27)),
            Lesson("36_preferences", "Preferences", 40, (8,)),
        ),
    ),
    Track(
        "Search: planning ahead",
        "c3",
        (
            Lesson("40_trees", "Trees of rollouts", 40, (24,)),
            Lesson("41_mcts", "Tree search", 60, (40,)),
            Lesson("42_alphazero", "AlphaZero, small", 50, (41,)),
        ),
    ),
)


def hours(minutes: int) -> str:
    """Format a time for people.

    Example:
        >>> hours(40), hours(60), hours(450)
        ('40 min', '1 h', '7 h 30 min')
    """
    parts = [f"{minutes // 60} h"] if minutes >= 60 else []
    return " ".join(parts + ([f"{minutes % 60} min"] if minutes % 60 or not parts else []))


class CourseMap:
    """A picture of the tracks, with a box for each lesson: its number, title, time, and the lessons it needs.

    Example:
        >>> print(str(CourseMap()).splitlines()[-1])
        total: 23 h
    """

    def __init__(self, tracks: tuple[Track, ...] = TRACKS) -> None:
        self.tracks = tracks

    def __repr__(self) -> str:
        lines = []
        for track in self.tracks:
            lines.append(f"{track.title}, {hours(track.minutes)}")
            for lesson in track.lessons:
                lines.append(f"  {lesson.number:02d} {lesson.title}, {lesson.minutes} min{_needs(lesson)}")
        return "\n".join([*lines, f"total: {hours(sum(track.minutes for track in self.tracks))}"])

    def _repr_html_(self) -> str:
        return image_tag(str(self._svg()), "Map of the course")

    def _svg(self) -> Svg:
        rows = [-(-len(track.lessons) // _COLUMNS) for track in self.tracks]
        wide = 2 * _EDGE + _COLUMNS * _WIDE + (_COLUMNS - 1) * _GAP
        svg = Svg(wide, _EDGE + sum(_HEAD + row * (_TALL + _GAP) for row in rows), title="Map of the course")
        top: float = _EDGE
        for track, row in zip(self.tracks, rows, strict=True):
            svg.text(_EDGE, top + 14, track.title, bold=True)
            svg.text(wide - _EDGE, top + 14, hours(track.minutes), fill="muted", anchor="end")
            top += _HEAD - 6
            for place, lesson in enumerate(track.lessons):
                _box(
                    svg,
                    lesson,
                    track.role,
                    _EDGE + place % _COLUMNS * (_WIDE + _GAP),
                    top + place // _COLUMNS * (_TALL + _GAP),
                )
                if place % _COLUMNS and place:
                    _arrow(
                        svg,
                        _EDGE + place % _COLUMNS * (_WIDE + _GAP),
                        top + place // _COLUMNS * (_TALL + _GAP) + _TALL / 2,
                    )
            top += row * (_TALL + _GAP) + 6
        return svg


def _box(svg: Svg, lesson: Lesson, role: str, x: float, y: float) -> None:
    svg.rect(x, y, _WIDE, _TALL, fill="paper", stroke=role, stroke_width=1.5, rx=5)
    svg.text(x + 8, y + 19, f"{lesson.number:02d}", fill="muted", size=11)
    svg.text(x + 27, y + 19, lesson.title, size=11)
    svg.text(x + 27, y + 36, f"{lesson.minutes} min{_needs(lesson)}", fill="muted", size=10)


def _arrow(svg: Svg, x: float, y: float) -> None:
    svg.polyline([(x - _GAP + 3, y), (x - 3, y)], stroke="muted", stroke_width=1)
    svg.polyline([(x - 6, y - 3), (x - 3, y), (x - 6, y + 3)], stroke="muted", stroke_width=1)


def _needs(lesson: Lesson) -> str:
    return ", needs " + ", ".join(f"{number:02d}" for number in lesson.needs) if lesson.needs else ""
