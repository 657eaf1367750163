import json
import math
import pickle

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core.jsonable import plain
from tensorplan.diagnosis.diagnosis import diagnose
from tensorplan.diagnosis.fit_features import Fit, Selected, fit_features
from tensorplan.diagnosis.inputs import named, refeatured
from tensorplan.features import Frame, build
from tensorplan.features.misfit import Fitter


class Board:
    """One step on a board of a given size, which pays f(x, y) and ends: v* is f.  With H steps it pays (H - h) f."""

    def __init__(self, side, f, horizon=1):
        self.side, self.f = side, f
        rewards = np.array([[f(*divmod(s, side))] for s in range(side * side)])
        stay = np.zeros((side * side, 1, side * side + 1))
        stay[np.arange(side * side), 0, np.arange(side * side)] = 1.0
        everywhere = np.full(side * side, 1 / side**2)
        span = (min(0.0, rewards.min()), max(1.0, rewards.max()))
        self.table = tp.TabularMDP(stay, rewards, horizon=horizon, start=everywhere, reward_range=span)
        self.frame = Frame((0, 0), (side - 1, side - 1), whole=True, names=("x", "y"), horizon=horizon)
        self.problem = tp.Problem(self.table, lambda s, h: np.ones(1), bound=1.0, name=f"board {side}")

    def point(self, state):
        return np.array(divmod(state, self.side), dtype=float)

    def fit(self, base, candidates, **options):
        return fit_features(self.problem, base, candidates, **{"frame": self.frame, "point": self.point} | options)


def quadratic(x, y):
    return 1.0 + 0.5 * x - 0.25 * y * y + 0.125 * x * y


def test_a_polynomial_is_found():
    """Of the 35 monomials up to degree 4 in centred coordinates: 1, x, y, y^2, x*y have to be among them."""
    board = Board(5, quadratic)
    fit = board.fit("poly0", ["poly4"])
    assert fit.realized
    assert fit.eta <= 1e-8
    chosen = {step.column for step in fit.history}
    assert {"x", "y", "y^2", "x*y"} <= chosen
    assert len(chosen) <= 8
    assert fit.features.dimension == 1 + len(fit.history)
    assert fit.features.names[0] == "1"
    assert [step.eta for step in fit.history] == sorted((step.eta for step in fit.history), reverse=True)
    assert fit.base_eta > fit.history[0].eta
    assert str(fit) == fit.sentence


def test_columns_that_are_there_already_are_not_added():
    board = Board(5, quadratic)
    fit = board.fit("poly2", ["poly4", "fourier2"])
    assert (fit.history, fit.realized) == ((), True)
    assert fit.features.name == "poly2"


def test_the_features_serve_a_larger_board():
    """Fitted on 4 x 4 in the frame of 9 x 9, they realize v* there, with norms at most 1."""
    small, large = Board(4, quadratic), Board(9, quadratic)
    fit = small.fit("poly1", ["poly2", "onehot"], frame=large.frame)
    assert fit.realized
    assert {step.candidate for step in fit.history} == {"poly2"}
    task = tp.Problem(large.table, lambda s, h: fit.features(large.point(s), h), bound=1e3, name="large")
    part = diagnose(task)["v"]
    assert part.realized
    assert part.places == 81
    points = np.random.default_rng(0).uniform(0, 8, (500, 2))
    norms = np.linalg.norm(fit.features.many(points, 0), axis=1)
    assert norms.max() <= 1 + 1e-12


def test_what_is_said_of_the_result_is_true():
    board = Board(6, lambda x, y: math.sin(x) + abs(y - 2))
    fit = board.fit("poly1", ["fourier2", "poly3"], eta=0.2)
    assert fit.realized
    assert fit.eta <= 0.2 + 1e-8
    rows = np.array([fit.features(board.point(s), 0) for s in range(36)])
    values = np.array([math.sin(x) + abs(y - 2) for x, y in np.ndindex(6, 6)])
    assert np.allclose(rows, fit.features.many(np.array([board.point(s) for s in range(36)]), 0))
    exact = Fitter(rows, values)
    assert exact.best().upper <= fit.history[-1].eta + 1e-9
    assert exact.within(fit.bound).upper <= fit.eta + 1e-8
    assert exact.within(0.9 * fit.bound).lower > fit.eta
    before = Fitter(rows[:, : fit.features.dimension - 1], values).best()
    assert before.lower > 0.2 or fit.features.names[-1] != fit.history[-1].column


def test_fewer_columns_are_enough_for_less():
    board = Board(6, lambda x, y: math.sin(x) + abs(y - 2))
    counts = [len(board.fit("poly0", ["poly5"], eta=eta).history) for eta in (1.0, 0.5, 0.2, 0.1)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_candidates_that_run_out():
    board = Board(5, lambda x, y: abs(x - 2) * abs(y - 1))
    fit = board.fit("poly0", ["poly2"])
    assert not fit.realized
    phi = np.array([build("poly2", board.frame)(board.point(s), 0) for s in range(25)])
    truth = Fitter(phi, np.array([abs(x - 2) * abs(y - 1) for x, y in np.ndindex(5, 5)])).best()
    assert fit.pool_eta == pytest.approx(truth.upper, abs=1e-7)
    assert truth.lower <= fit.eta <= 1.02 * truth.upper
    assert "all candidates together miss by" in fit.sentence
    nothing = board.fit("poly0", [])
    assert (nothing.realized, nothing.history) == (False, ())
    assert nothing.features.name == "poly0"


def test_the_limit():
    board = Board(5, quadratic)
    fit = board.fit("poly0", ["poly4"], limit=2)
    assert len(fit.history) == 2
    assert not fit.realized
    assert "the limit" in fit.sentence


def test_features_of_stages():
    board = Board(3, lambda x, y: x + y, horizon=4)
    fit = board.fit("poly1", ["poly2@time"])
    assert fit.realized
    assert {"time", "x*time", "y*time"} <= {step.column for step in fit.history}
    one_by_one = np.array([fit.features(board.point(4), h) for h in range(4)])
    assert np.allclose(one_by_one, fit.features.many(np.tile(board.point(4), (4, 1)), np.arange(4)))


def test_puzzles_have_coordinates_of_their_own():
    fit = fit_features(tp.make("grid/5x6"), "poly0", ["poly3"])
    assert [step.column for step in fit.history] == ["x1", "x0"]
    assert fit.realized
    assert diagnose(refeatured(tp.make("grid/5x6"), fit.features, bound=fit.bound))["v"].suffices


def test_an_environment_is_enriched():
    pytest.importorskip("gymnasium")
    lake = named("FrozenLake-v1", features="poly1", horizon=5)
    fit = fit_features(lake, "poly1@time", ["poly2@time", "onehot@stage"])
    assert isinstance(fit, Fit)
    assert fit.realized
    assert diagnose(refeatured(lake, fit.features, bound=fit.bound))["v"].suffices


def test_functions_and_maps_are_candidates_too():
    board = Board(5, lambda x, y: 1.0 if x == y else 0.0)
    fit = board.fit(build("poly1", board.frame), [lambda p: [float(p[0] == p[1])]])
    assert fit.realized
    assert len(fit.history) == 1


def test_reproducible_and_plain():
    board = Board(5, lambda x, y: math.exp(-x) * y)
    first, second = (board.fit("poly1", ["rff30"], eta=0.05, seed=3) for _ in range(2))
    assert first.history == second.history
    assert first.history != board.fit("poly1", ["rff30"], eta=0.05, seed=4).history
    json.dumps(plain(first), allow_nan=False)
    again = pickle.loads(pickle.dumps(first.features))
    assert np.array_equal(again(board.point(7), 0), first.features(board.point(7), 0))


def test_selected_features_have_norms_up_to_one():
    frame = Frame((0.0,), (1.0,))
    chosen = Selected([(build("poly1", frame), [0, 1]), (build("fourier3", frame), [2])])
    assert chosen.dimension == 3
    assert chosen.name == "poly1 + 1 of fourier3"
    for x in np.linspace(0, 1, 11):
        assert np.linalg.norm(chosen(np.array([x]), 0)) <= 1


def test_bad_input():
    board = Board(3, quadratic)
    with pytest.raises(tp.BadInput, match="candidates must be a list"):
        board.fit("poly0", "poly2")
    with pytest.raises(tp.BadInput, match="eta must be a number >= 0"):
        board.fit("poly0", ["poly2"], eta=-1.0)
    with pytest.raises(tp.BadInput, match="unknown feature map"):
        board.fit("poly0", ["pony2"])
    with pytest.raises(tp.BadInput, match="fit features to a small problem"):
        fit_features(tp.make("hard/2x3"), "poly0", [], frame=board.frame, point=board.point)
    with pytest.raises(tp.BadInput, match="coordinates are not known"):
        fit_features(tp.make("hard/2x3"), "poly0", ["poly2"])
