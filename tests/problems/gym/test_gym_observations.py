"""Observations as points: nested spaces, images, functions of the user."""

import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten

import tensorplan as tp
from tensorplan.problems.gym.images import ImageGrid
from tensorplan.problems.gym.observations import view
from tensorplan.testing import check_problem

PLAIN = {
    "discrete": spaces.Discrete(4),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "multidiscrete": spaces.MultiDiscrete([2, 3, 4]),
    "multidiscrete from 1": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "matrix of discrete": spaces.MultiDiscrete([[2, 3], [4, 2]]),
    "switches": spaces.MultiBinary(3),
    "matrix of switches": spaces.MultiBinary([2, 2]),
    "box": spaces.Box(-1, 2, (3,)),
    "matrix": spaces.Box(-1, 2, (2, 3), np.float64),
    "bytes": spaces.Box(0, 255, (7, 7, 3), np.uint8),
    "booleans": spaces.Box(0, 1, (10, 10, 4), bool),
    "number": spaces.Box(0, 1, ()),
}
NESTED = {
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2,)))),
    "tuple of discrete": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2, start=1))),
    "dict": spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-1, 1, (2, 2)), c=spaces.MultiBinary(2)),
    "dict in tuple": spaces.Tuple((spaces.Discrete(3), spaces.Dict(y=spaces.Box(0, 1, (1,)), z=spaces.Discrete(2)))),
    "tuple in dict": spaces.Dict(
        t=spaces.Tuple((spaces.Discrete(3), spaces.MultiDiscrete([2, 2]))), u=spaces.Discrete(2)
    ),
    "deep": spaces.Dict(a=spaces.Dict(b=spaces.Dict(c=spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1, 2))))))),
}
SPACES = PLAIN | NESTED
RULES = ("auto", "numbers", "flat")


@pytest.fixture(params=SPACES)
def space(request):
    found = SPACES[request.param]
    found.seed(0)
    return found


def test_flat_is_what_gymnasium_makes_of_it(space):
    point = view(space, "X", "flat").point
    for _ in range(20):
        observation = space.sample()
        np.testing.assert_array_equal(point(observation), flatten(space, observation))


@pytest.mark.parametrize("rule", RULES)
def test_points_are_in_their_frame_and_share_no_memory_with_observations(space, rule):
    seen = view(space, "X", rule)
    frame = seen.frame(None)
    assert len(set(seen.names)) == len(seen.names) == frame.size
    for _ in range(20):
        observation = space.sample()
        point = seen.point(observation)
        assert point.shape == (frame.size,)
        assert point.dtype == np.float64
        frame.unit(point)
        assert not frame.whole or not (point % 1).any()
        assert not any(np.shares_memory(point, array) for array in arrays(observation))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(seen.point))(observation), point)


def arrays(observation):
    if isinstance(observation, np.ndarray):
        return [observation]
    parts = observation.values() if isinstance(observation, dict) else observation
    return [a for part in parts for a in arrays(part)] if isinstance(observation, dict | tuple) else []


@pytest.mark.parametrize("name", PLAIN)
def test_the_coordinates_of_a_single_space_are_its_numbers(name):
    seen = view(PLAIN[name], "X")
    observation = PLAIN[name].sample()
    np.testing.assert_array_equal(seen.point(observation), np.ravel(observation).astype(float))
    assert seen.names == tuple(f"x{i}" for i in range(np.size(observation)))


@pytest.mark.parametrize(
    ("name", "names", "observation", "point"),
    [
        ("tuple of discrete", ("x0", "x1"), (2, 1), [2, 1]),
        ("tuple", ("x0", "x1[0]", "x1[1]"), (2, np.array([0.5, 1])), [2, 0.5, 1]),
        ("dict in tuple", ("x0", "x1.y[0]", "x1.z=0", "x1.z=1"), (2, {"z": 1, "y": np.ones(1)}), [2, 1, 0, 1]),
        (
            "tuple in dict",
            ("t[0]=0", "t[0]=1", "t[0]=2", "t[1][0]=0", "t[1][0]=1", "t[1][1]=0", "t[1][1]=1", "u=0", "u=1"),
            {"u": 0, "t": (1, np.array([0, 1]))},
            [0, 1, 0, 1, 0, 0, 1, 1, 0],
        ),
        (
            "deep",
            ("a.b.c[0]=0", "a.b.c[0]=1", "a.b.c[1][0,0]", "a.b.c[1][0,1]"),
            {"a": {"b": {"c": (1, np.array([[0.25, 0.5]]))}}},
            [0, 1, 0.25, 0.5],
        ),
    ],
)
def test_tuples_are_numbers_and_dictionaries_have_indicators(name, names, observation, point):
    seen = view(NESTED[name], "X")
    assert seen.names == names
    assert seen.point(observation).tolist() == point


def test_whole_numbers_stay_whole():
    assert view(spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))), "X").whole
    assert view(PLAIN["booleans"], "X").whole
    assert not view(NESTED["dict"], "X").whole


# ------------------------------------------------------------------------------------------ parts without numbers

WORDS = spaces.Text(9)


def test_parts_that_are_not_numeric_are_left_out_and_named_once():
    space = spaces.Dict(image=spaces.Box(0, 255, (2, 2), np.uint8), mission=WORDS)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        seen = view(space, "Maze-v0")
        assert seen.point({"image": np.eye(2), "mission": "go"}).tolist() == [1, 0, 0, 1]
    assert [str(w.message) for w in said] == [
        "the observation of Maze-v0 has a part that is not numeric, 'mission': features do not see it, while states "
        "include it; observation=f, a function of the observation, can make numbers of it"
    ]
    assert seen.names == ("image[0,0]", "image[0,1]", "image[1,0]", "image[1,1]")
    nested = spaces.Tuple((spaces.Discrete(2), spaces.Dict(a=WORDS, b=spaces.Sequence(spaces.Discrete(2)))))
    with pytest.warns(UserWarning, match=r"parts that are not numeric, 'x1\.a', 'x1\.b'"):
        assert view(nested, "X").names == ("x0",)


@pytest.mark.parametrize("space", [WORDS, spaces.Dict(a=WORDS), spaces.Sequence(spaces.Box(0, 1))])
def test_observations_without_numbers_are_refused(space):
    with pytest.raises(tp.BadInput, match=r"^X has observations without numbers \(.*\): give observation=f, .*$"):
        view(space, "X")
    assert view(space, "X", len).point("four").tolist() == [4]


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        ({"b": 1}, r"^the part 'a' of an observation of X is not in its space \(KeyError: 'a'\)$"),
        ({"a": 3, "b": 1}, r"^the part 'a' of an observation of X is not in its space \(ValueError: it is 3\)$"),
        ({"a": 0, "b": [1, 2]}, r"^the part 'b' .* is not in its space \(it has 2 coordinates, not 1\)$"),
        (None, r"^the part 'a' .* is not in its space \(TypeError: .*\)$"),
    ],
)
def test_observations_outside_of_their_space_get_one_sentence(observation, sentence):
    with pytest.raises(tp.ProblemError, match=sentence):
        view(spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, ())), "X").point(observation)


# ------------------------------------------------------------------------------------------ images


@pytest.mark.parametrize(
    ("shape", "dtype", "first", "size"),
    [
        ((210, 160, 3), np.uint8, "image gray 8x8[0,0]", 64),
        ((84, 84), np.uint8, "image 8x8[0,0]", 64),
        ((84, 84, 1), np.uint8, "image 8x8[0,0,0]", 64),
        ((4, 84, 84), np.uint8, "image 4x4[0,0,0]", 64),
        ((84, 84, 4), np.float32, "image 4x4[0,0,0]", 64),
        ((4, 210, 160, 3), np.uint8, "image gray 4x4[0,0,0]", 64),
        ((3, 100, 5), bool, "image gray 8x5[0,0]", 40),
    ],
)
def test_large_images_are_averaged_over_a_grid(shape, dtype, first, size):
    space = spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype, seed=0)
    seen = view(space, "X")
    assert (seen.names[0], len(seen.low)) == (first, size)
    assert (set(seen.low), set(seen.high), seen.whole) == ({0.0}, {1.0}, False)
    for image, value in ((space.low, 0.0), (space.high, 1.0)):
        assert seen.point(image).tolist() == [value] * size
    assert seen.point(space.sample()).std() > 0


def test_the_cells_of_a_grid_are_averages_of_blocks():
    space = spaces.Box(0, 255, (64, 40, 3), np.uint8, seed=0)
    image = space.sample()
    blocks = image.reshape(8, 8, 8, 5, 3).mean(axis=(1, 3, 4)) / 255
    np.testing.assert_allclose(view(space, "X").point(image), blocks.ravel(), rtol=1e-14)
    uneven = ImageGrid(spaces.Box(-2, 2, (9, 3)))
    picture = np.linspace(-2, 2, 27).reshape(9, 3)
    assert uneven.rows == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    np.testing.assert_allclose(uneven(picture)[-3:], (picture[7:].mean(axis=0) + 2) / 4)


def test_small_images_and_the_memory_of_a_console_stay_as_they_are():
    for space in (PLAIN["bytes"], PLAIN["booleans"], spaces.Box(0, 255, (128,), np.uint8)):
        assert len(view(space, "X").low) == space.sample().size
    assert view(PLAIN["booleans"], "X", "image").names[-1] == "image 4x4[3,3,3]"
    assert len(view(spaces.Box(0, 255, (84, 84), np.uint8), "X", "flat").low) == 84 * 84
    assert len(view(spaces.Box(-1, 1, (84, 84)), "X").low) == 84 * 84  # numbers, not an image


def test_an_image_in_a_dictionary():
    space = spaces.Dict(direction=spaces.Discrete(4), image=spaces.Box(0, 255, (56, 56, 3), np.uint8))
    seen = view(space, "X")
    assert seen.names[:5] == (*(f"direction={i}" for i in range(4)), "image gray 8x8[0,0]")


def test_large_observations_say_so():
    assert view(spaces.Box(0, 255, (210, 160, 3), np.uint8), "X").nbytes == 210 * 160 * 3
    assert view(spaces.Box(0, 255, (210, 160, 3), np.uint8), "X", np.mean).large
    assert view(spaces.Dict(a=spaces.Box(0, 1, (64, 64)), b=spaces.Discrete(2)), "X").large
    assert not any(view(space, "X").large for space in SPACES.values())


@pytest.mark.parametrize("observation", ["picture", 3, None])
def test_rules_by_name(observation):
    with pytest.raises(tp.BadInput, match=r"^observation must be a function or one of 'auto', .*, got "):
        view(PLAIN["box"], "X", observation)
    with pytest.raises(tp.BadInput, match=r"^X has no image, a bounded box with two to four dimensions, in its obs"):
        view(NESTED["tuple"], "X", "image")


def test_the_words_of_minigrid():
    pytest.importorskip("minigrid", reason="MiniGrid is not installed")
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    with pytest.warns(UserWarning, match="a part that is not numeric, 'mission'"):
        seen = view(env.observation_space, "MiniGrid-Empty-5x5-v0")
    assert (seen.names[3], seen.names[-1]) == ("direction=3", "image[6,6,2]")
    observation, _ = env.reset(seed=0)
    assert seen.point(observation)[:4].tolist() == [1, 0, 0, 0]
    assert seen.point(observation)[4:].tolist() == observation["image"].ravel().tolist()


# ------------------------------------------------------------------------------------------ from_gym


class Corridor(gymnasium.Env):
    """Right along a corridor of six; there are words beside the number."""

    observation_space = spaces.Dict(place=spaces.Discrete(6), words=WORDS)
    action_space = spaces.Discrete(2)
    place = 0

    def seen(self):
        return {"place": self.place, "words": "there" if self.place == 5 else "no"}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.seen(), {}

    def step(self, action):
        self.place = max(self.place + 2 * int(action) - 1, 0)
        return self.seen(), -1.0, self.place == 5, False, {}


def corridor(**options):
    given = {"features": "linear", "reward_range": (-1, -1), "bound": 100.0, "horizon": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tp.from_gym(Corridor, **given | options)


@pytest.mark.parametrize(
    ("observation", "d"),
    [
        ("auto", 7),
        ("numbers", 2),
        (lambda o: [o["place"] / 5, len(o["words"])], 3),
        (lambda o: np.eye(6)[o["place"]], 7),
    ],
)
def test_plans_with_every_kind_of_observation(observation, d):
    problem = corridor(observation=observation)
    assert problem.dimension == d
    check_problem(problem, episodes=2)
    (episode,) = tp.run(problem, tp.TensorPlan()).episodes
    assert (episode.total_reward, episode.certificate.status) == (-5, "certified")


def test_the_coordinates_of_a_function_have_a_frame_from_random_play_unless_one_is_given():
    def place(observation):
        return observation["place"]

    assert corridor(observation=place).mdp.frame.guessed == (0,)
    frame = corridor(observation=place, frame=((0,), (5,))).mdp.frame
    assert (frame.low, frame.high, frame.guessed) == ((0,), (5,), ())


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda o: 1 / o["place"], "raised ZeroDivisionError: division by zero"),
        (lambda o: "no", "returned 'no', expected an array of numbers"),
        (lambda o: [], "returned 0 numbers, expected at least one"),
        (lambda o: [1.0] * (1 + o["place"] % 2), "returned 2 numbers, expected 1"),
        (lambda o: np.log(np.float64(o["place"])), "returned a number that is not finite, -inf"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_functions_that_do_not_make_points_get_one_sentence(function, sentence):
    with pytest.raises(tp.ProblemError) as error:
        corridor(observation=function)
    assert str(error.value) == f"observation=<lambda> of Corridor {sentence}"


def test_functions_and_rules_for_tables_and_known_ranges():
    lake = tp.from_gym("FrozenLake-v1", features="linear", observation="flat").mdp
    assert lake.frame.names[3] == "x0=3"
    lake = tp.from_gym("FrozenLake-v1", features="linear", observation=lambda s: [s % 4, s // 4, 7]).mdp
    assert (lake.frame.high, lake.frame.guessed, lake.point(6).tolist()) == ((3, 3, 7), (), [2, 1, 7])
    pole = tp.from_gym("CartPole-v1", features="linear", observation=lambda x: x[2], bound=9.0).mdp.frame
    assert (pole.size, pole.guessed) == (1, (0,))
    assert tp.from_gym("CartPole-v1", features="linear", observation="flat", bound=9.0).mdp.frame.guessed == ()


def test_actions_from_another_number_on():
    from tensorplan.problems.gym.spaces import numbered_actions

    space = spaces.MultiDiscrete([2, 2], start=[1, -1])
    actions = numbered_actions(space, "X")
    assert [a.tolist() for a in actions] == [[1, -1], [1, 0], [2, -1], [2, 0]]
    assert all(space.contains(action) for action in actions)
