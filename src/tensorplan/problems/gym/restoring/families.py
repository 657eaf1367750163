"""The simulators that people use: how they are saved and loaded, the ranges of rewards and returns, time limits.

Nothing of them is imported before an environment of the family exists.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.restoring.adapters import full_name, know
from tensorplan.problems.gym.restoring.content import ATOMS, FORMAT

BABYAI = "minigrid.envs.babyai"

REWARDS: dict[str, tuple[float, float]] = {
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": (0.0, 1.0),
    "gymnasium.envs.classic_control.mountain_car.MountainCarEnv": (-1.0, -1.0),
    "gymnasium.envs.classic_control.acrobot.AcrobotEnv": (-1.0, 0.0),
    "gymnasium.envs.toy_text.blackjack.BlackjackEnv": (-1.0, 1.5),
    "minatar.environments.asterix.Env": (0.0, 1.0),
    "minatar.environments.breakout.Env": (0.0, 1.0),
    "minatar.environments.freeway.Env": (0.0, 1.0),
    "minatar.environments.seaquest.Env": (0.0, 13.0),  # 10 for six divers, 1 for each of the bullets that are alive
    "minatar.environments.space_invaders.Env": (0.0, 3.0),  # one for each of the bullets that are alive
}
"""The rewards of environments, or of the game inside, that do not say so themselves."""


def known_rewards(env: Any) -> tuple[float, float] | None:
    """The range of the rewards of an environment without wrappers, if it is known."""
    if getattr(env, "_sutton_barto_reward", False):
        return None
    game = getattr(getattr(env, "game", None), "env", None)
    declared = REWARDS.get(full_name(type(env))) or REWARDS.get(full_name(type(game)))
    if declared is None and type(env).__module__.startswith("highway_env"):
        return (0.0, 1.0) if env.config.get("normalize_reward") else None
    if declared is None:  # as Gym's environments had it, and MiniGrid's have
        declared = getattr(env, "reward_range", None)
    try:
        low, high = (float(end) for end in declared)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        return None
    return (low, high) if np.isfinite([low, high]).all() else None


def known_returns(env: Any) -> tuple[float, float] | None:
    """The range of returns, where an episode of an environment has at most one reward: MiniGrid's."""
    bare = env.unwrapped
    return known_rewards(bare) if type(bare).__module__.startswith("minigrid.") else None


def known_limit(env: Any) -> int | None:
    """The time limit that an environment without wrappers has inside: MiniGrid's, not BabyAI's, which vary."""
    module = type(env).__module__
    fixed = module.startswith("minigrid.") and not module.startswith(BABYAI)
    return int(env.max_steps) if fixed else None


def prepare(env: Any) -> None:
    """Let a new environment draw all its random numbers from Gymnasium's generator, where it has another one inside."""
    if type(env).__module__.startswith("ale_py"):
        chance = env.ale.getFloat("repeat_action_probability")
        if chance > 0:
            env.ale.setFloat("repeat_action_probability", 0.0)
            env.load_game()
            env.ale = StickyALE(env, env.ale, chance)


def refuse_foreign(env: Any) -> None:
    """Raise if the state of an environment that was not prepared cannot be captured."""
    if type(env).__module__.startswith("ale_py") and env.ale.getFloat("repeat_action_probability") > 0:
        raise BadInput(
            f"the state of {env} cannot be captured, since its emulator does not tell the action that may be repeated: "
            "make it with repeat_action_probability=0"
        )


# ------------------------------------------------------------------------------------------ ALE


class StickyALE:
    """An emulator whose sticky actions are drawn from the environment's generator, frame by frame, as it draws them."""

    def __init__(self, env: Any, emulator: Any, chance: float) -> None:
        self.env, self.emulator, self.chance = env, emulator, chance
        self.last = 0

    def act(self, action: Any, strength: float = 1.0) -> Any:
        """One frame, with the action or the last one."""
        if self.env._np_random.random() >= self.chance:
            self.last = action.value
        return self.emulator.act(type(action)(self.last), strength)

    def reset_game(self) -> None:
        """A new game, in which no action was taken."""
        self.last = 0
        self.emulator.reset_game()

    def __getattr__(self, name: str) -> Any:
        if name == "emulator":  # not there yet: the object is being made
            raise AttributeError(name)
        return getattr(self.emulator, name)


def _get_emulator(emulator: Any) -> bytes:
    saved: bytes = emulator.cloneState().serialize()
    return saved


def _set_emulator(emulator: Any, saved: bytes) -> None:
    from ale_py import ALEState

    emulator.restoreState(ALEState(saved))


know("ale_py._ale_py.ALEInterface", _get_emulator, _set_emulator)


# ------------------------------------------------------------------------------------------ MuJoCo


DERIVED = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com"),
    *("cinert", "cvel", "cacc", "cfrc_int", "cfrc_ext", "qacc", "qfrc_actuator", "qfrc_constraint", "actuator_force"),
    "sensordata",
)
"""What MuJoCo computes from its state, one step behind it, and environments look at before the next step."""


def _get_mujoco(data: Any) -> Any:
    import mujoco

    state = np.empty(mujoco.mj_stateSize(data.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(data.model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return (state.tobytes(), *[getattr(data, name).tobytes() for name in DERIVED])


def _set_mujoco(data: Any, saved: Any) -> None:
    import mujoco

    state = np.frombuffer(saved[0])
    mujoco.mj_setState(data.model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    for name, values in zip(DERIVED, saved[1:], strict=True):
        array = getattr(data, name)
        array[...] = np.frombuffer(values, array.dtype).reshape(array.shape)


know("mujoco._structs.MjData", _get_mujoco, _set_mujoco)


# ------------------------------------------------------------------------------------------ MinAtar


class _Game(NamedTuple):
    """The attributes of a game of MinAtar that make up its state."""

    names: tuple[str, ...]
    values: Callable[[dict[str, Any]], tuple[Any, ...]]
    arrays: tuple[tuple[int, np.dtype[Any], tuple[int, ...]], ...]
    lists: tuple[int, ...]


_GAMES: dict[type, _Game] = {}
_CONSTANT = ("channels", "action_map", "random", "ramping")
_MARSHALLED = ATOMS | {np.ndarray, list}


def _game(game: Any) -> _Game:
    own = {name: x for name, x in vars(game).items() if name not in _CONSTANT}
    arrays = [(i, x.dtype, x.shape) for i, x in enumerate(own.values()) if isinstance(x, np.ndarray)]
    lists = [i for i, x in enumerate(own.values()) if isinstance(x, list)]
    return _GAMES.setdefault(type(game), _Game(tuple(own), itemgetter(*own), tuple(arrays), tuple(lists)))


def _get_minatar(env: Any) -> bytes:
    outer = env.game
    game = outer.env
    found = _GAMES.get(type(game)) or _game(game)
    values = list(found.values(game.__dict__))
    for i in found.lists:
        values[i] = _numbers(values[i])
    if not _MARSHALLED.issuperset(map(type, values)):
        values = [x.item() if isinstance(x, np.generic) else x for x in values]
    return marshal.dumps([int(outer.last_action), values], FORMAT)


def _set_minatar(env: Any, saved: bytes) -> None:
    outer = env.game
    game = outer.env
    found = _GAMES.get(type(game)) or _game(game)
    outer.last_action, values = marshal.loads(saved)
    for i, dtype, shape in found.arrays:
        values[i] = np.ndarray(shape, dtype, values[i]).copy()
    game.__dict__.update(zip(found.names, values))  # noqa: B905  # in the inner loop of every query


def _numbers(listed: list[Any]) -> list[Any]:
    """Nested lists with Python's numbers in place of NumPy's."""
    return [x if type(x) in ATOMS else x.item() if isinstance(x, np.generic) else _numbers(x) for x in listed]


know("minatar.gym.BaseEnv", _get_minatar, _set_minatar)


# ------------------------------------------------------------------------------------------ MiniGrid


EMPTY, OTHER = 0, 255
"""The numbers of an empty cell, and of one whose object is listed."""
COLORS = 16
"""More than MiniGrid has."""


class _Tiles:
    """The objects of MiniGrid that never change, such as walls: one of each kind and colour, with a number."""

    def __init__(self) -> None:
        from minigrid.core import constants
        from minigrid.core import world_object as objects

        tiles = [objects.Lava(), *[kind(color) for kind in (objects.Wall, objects.Floor) for color in constants.COLORS]]
        self.made: list[Any] = [None] * 256
        """By number."""
        self._numbers: dict[tuple[type, str], int] = {}
        for tile in tiles:
            number = 1 + constants.OBJECT_TO_IDX[tile.type] * COLORS + constants.COLOR_TO_IDX[tile.color]
            self.made[number], self._numbers[type(tile), tile.color] = tile, number
        self.by_id = {id(tile): number for number, tile in enumerate(self.made) if tile is not None} | {id(None): EMPTY}

    def number(self, tile: Any) -> int:
        """The number of a tile that never changes, else OTHER."""
        if any(x is not None for x in (tile.contains, tile.init_pos, tile.cur_pos)):  # not !=: they may be arrays
            return OTHER
        return self._numbers.get((type(tile), tile.color), OTHER)


@lru_cache(maxsize=1)
def _tiles() -> _Tiles:
    return _Tiles()


def _get_grid(grid: Any) -> Any:
    tiles, objects = _tiles(), grid.grid
    numbers = tiles.by_id.get
    cells = bytearray([numbers(id(x), OTHER) for x in objects])
    others = []
    place = cells.find(OTHER)
    while place >= 0:
        cells[place] = tiles.number(objects[place])
        if cells[place] == OTHER:
            others.append(objects[place])
        place = cells.find(OTHER, place + 1)
    return (grid.width, grid.height, bytes(cells), others)


def _set_grid(grid: Any, saved: Any) -> None:
    grid.width, grid.height, cells, others = saved
    objects = list(map(_tiles().made.__getitem__, cells))
    place = -1
    for x in others:
        place = cells.find(OTHER, place + 1)
        objects[place] = x
    grid.grid = objects


know("minigrid.core.grid.Grid", _get_grid, _set_grid)
