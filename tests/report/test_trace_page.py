import html
import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core.errors import BadInput
from tensorplan.planners.tensorplan.trace import Failure, Iteration, Step, Trace
from tensorplan.report import sol_slice
from tensorplan.report.certificates import certificate_lines
from tensorplan.report.sol_slice import Plane, convex_part, pieces, strips
from tensorplan.report.trace_page import _slices, sentence, trace_page, write_trace_page
from tensorplan.report.trace_pictures import Pictures, hanoi_picture, hanoi_place, pictures_of, rings_picture, state_of


def trace_of(problem, **options):
    return tp.run(problem, tp.TensorPlan(trace=True, **options)).episodes[0].trace


@pytest.fixture(scope="module")
def hanoi():
    return trace_of(tp.make("hanoi/4"))


@pytest.fixture(scope="module")
def flat():
    return trace_of(tp.make("layered", actions=3, d=2, horizon=8, states=200, seed=1))


@pytest.fixture(scope="module")
def noisy():
    return trace_of(tp.make("layered-stochastic/2x2", seed=1))


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


# ------------------------------------------------------------------------------ Sol in two dimensions


def holds(theta, rows, disjunctions, radius):
    """Membership as the program states it, and how close the nearest constraint is to deciding otherwise."""
    edges = [radius - float(np.linalg.norm(theta))]
    edges += [row[-1] - float(np.dot(row[:-1], theta)) for row in rows]
    for tol, deltas in disjunctions:
        edges.append(max(tol - abs(float(np.dot(delta, [1.0, *theta]))) for delta in deltas))
    return min(edges) >= 0, min(abs(edge) for edge in edges)


def within(point, polygon):
    x, y = point
    sides = zip(polygon, np.roll(polygon, -1, axis=0), strict=True)
    return all((b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) >= 0 for a, b in sides)


def random_set(rng, d, actions):
    rows = [(*rng.normal(size=d), rng.uniform(0.1, 1.5)) for _ in range(rng.integers(0, 6))]
    forms = [
        (rng.uniform(0.05, 0.5), tuple(map(tuple, rng.normal(size=(actions, d + 1)))))
        for _ in range(rng.integers(0, 4))
    ]
    return rows, forms


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_pieces_are_the_points_of_the_plane_that_satisfy_everything(d):
    rng = np.random.default_rng(d)
    seen = {True: 0, False: 0}
    for _ in range(25):
        rows, forms = random_set(rng, d, actions=3)
        plane = Plane.through(rng.normal(size=d), rng.normal(size=d) / d, rng.normal(size=d) / d, 1.3)
        found = pieces(plane, convex_part(plane, rows, 1.3), forms, 1.3)
        for x, y in rng.uniform(-1.5, 1.5, size=(80, 2)) + np.array([plane.centre, 0.0]):
            inside, margin = holds(plane.lift(x, y), rows, forms, 1.3)
            in_disc = math.hypot(x - plane.centre, y) <= plane.size
            if margin > 1e-5:
                assert inside == (in_disc and any(within((x, y), piece) for piece in found))
                seen[inside] += 1
    assert min(seen.values()) > 50


def test_a_plane_holds_its_two_parameters_and_cuts_a_disc():
    rng = np.random.default_rng(0)
    for d in (2, 3, 7):
        phi, theta, other = rng.normal(size=(3, d))
        radius = 1.5 * max(np.linalg.norm(theta), np.linalg.norm(other))
        plane = Plane.through(phi, theta, other, radius)
        for point in (theta, other):
            assert plane.lift(*plane.place(point)) == pytest.approx(point)
        assert theta @ phi == pytest.approx(np.linalg.norm(phi) * plane.place(theta)[1])
        for angle in (0.0, 1.0, 4.0):
            x, y = plane.centre + plane.size * math.cos(angle), plane.size * math.sin(angle)
            assert np.linalg.norm(plane.lift(x, y)) == pytest.approx(radius)


def test_a_plane_is_found_where_parameters_do_not_give_one():
    phi, theta = np.array([0.0, 0.0, 2.0]), np.array([0.3, 0.4, 0.5])
    for other in (theta, theta - 0.2 * phi):
        plane = Plane.through(phi, theta, other, 1.0)
        assert plane.lift(*plane.place(theta)) == pytest.approx(theta)
        assert np.linalg.norm(plane.across) == pytest.approx(1.0)
    assert np.linalg.norm(Plane.through(np.zeros(3), theta, -theta, 1.0).up) == pytest.approx(1.0)
    assert Plane.through(np.array([-0.5]), np.array([2.0]), np.array([1.0]), 4.0).place(np.array([2.0])) == (0.0, -2.0)


def test_two_equal_alternatives_make_one_piece():
    plane = Plane.through(np.array([0.0, 1.0]), np.zeros(2), np.ones(2), 1.0)
    twice = (0.0, ((0.1, 1.0, 0.3), (0.1, 1.0, 0.3), (0.1, 1.0, 0.3)))
    assert len(strips(plane, plane.square(), twice, 1.0)) == 3
    assert len(pieces(plane, plane.square(), [twice] * 30, 1.0)) == 1


def test_too_many_pieces_are_left_uncut(monkeypatch):
    monkeypatch.setattr(sol_slice, "MOST", 2)
    rng = np.random.default_rng(1)
    forms = [(0.01, tuple(map(tuple, rng.normal(size=(4, 3)) * [0.2, 1, 1]))) for _ in range(5)]
    plane = Plane.through(np.array([0.0, 1.0]), np.zeros(2), np.ones(2), 1.0)
    coarse = pieces(plane, plane.square(), forms, 1.0)
    monkeypatch.setattr(sol_slice, "MOST", 10**6)
    for piece in pieces(plane, plane.square(), forms, 1.0):
        assert any(within(piece.mean(axis=0), whole) for whole in coarse)


def test_theta_is_the_highest_point_of_sol_and_the_last_one_stays_in(flat):
    rows, forms = list(flat.rows), []
    last = np.array(flat.iterations[-1].theta)
    for now in flat.iterations:
        theta = np.array(now.theta)
        plane = Plane.through(np.array(flat.objective), theta, last, flat.radius)
        found = pieces(plane, convex_part(plane, rows, flat.radius), forms, flat.radius)
        corners = np.concatenate(found) - plane.place(theta)
        in_disc = np.linalg.norm(np.concatenate(found), axis=1) <= plane.size
        assert corners[in_disc, 1].max(initial=-1.0) <= 1e-4
        assert any(_distance(plane.place(theta), piece) <= 1e-5 for piece in found)
        assert any(_distance(plane.place(last), piece) <= 1e-5 for piece in found)
        rows += now.rows
        forms += now.disjunctions


def _distance(point, polygon):
    """From a point to a convex polygon, which may be as thin as a line."""
    if len(polygon) > 2 and within(point, polygon):
        return 0.0
    best = math.inf
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        t = np.clip((point - a) @ (b - a) / max((b - a) @ (b - a), 1e-300), 0, 1)
        best = min(best, float(np.linalg.norm(a + t * (b - a) - point)))
    return best


def test_each_step_cuts_off_its_theta(hanoi, flat, noisy):
    for trace in (hanoi, flat, noisy):
        drawn = _slices(trace)
        for k, now in enumerate(trace.iterations):
            rows = [*trace.rows, *(row for i in trace.iterations[: k + 1] for row in i.rows)]
            forms = [pair for i in trace.iterations[: k + 1] for pair in i.disjunctions]
            slack = 1e-6 * (1 + trace.radius)
            widened = [(*row[:-1], row[-1] + slack) for row in rows], [(tol + slack, deltas) for tol, deltas in forms]
            inside = holds(now.theta, *widened, trace.radius + slack)[0]
            assert not (inside and now.failures)
            assert inside or now.failures or trace is noisy  # where samples grow, rows that were looser may cut it too
            x, y = drawn[k]["theta"]
            assert math.hypot(x, y) <= 1 + 1e-3
            assert y == pytest.approx(drawn[k]["upper"], abs=2e-3)
        assert drawn[0]["sol"] is None  # nothing is known of T3 yet
        assert drawn[-1]["theta"] == drawn[-1]["last"]


def test_the_product_form_is_covered_by_its_strips():
    problem = tp.make("layered", actions=2, d=2, horizon=3, states=20, seed=3)
    trace = trace_of(problem, mode="paper", delta=0.5, c=1e-3)
    tol, deltas = trace.iterations[0].disjunctions[0]
    cuts = [np.array(piece) for piece in _slices(trace)[0]["cuts"]]
    plane = Plane.through(np.array(trace.objective), np.zeros(2), np.zeros(2), trace.radius)
    points = np.random.default_rng(0).uniform(-0.7, 0.7, size=(40_000, 2))
    thetas = trace.radius * (points[:, :1] * plane.across + points[:, 1:] * plane.up)
    inside = np.abs(np.prod(np.array(deltas)[:, 0] + thetas @ np.array(deltas)[:, 1:].T, axis=1)) <= tol
    assert inside.sum() > 10
    assert all(min(_distance(point, cut) for cut in cuts) < 1e-3 for point in points[inside])
    assert "product form" in trace_page("p", trace)
    assert "the rollouts are clean" in sentence(trace, len(trace.iterations) - 1)


# ------------------------------------------------------------------------------------------ pictures


def test_neighbours_in_hanoi_are_one_move_apart_on_the_map():
    game = tp.make("hanoi/3").mdp
    states = list(itertools.product(range(3), repeat=3))
    places = {state: hanoi_place(state) for state in states}
    for one, other in itertools.combinations(states, 2):
        apart = math.dist(places[one], places[other])
        if other in {game.move(one, a) for a in range(3)}:
            assert apart == pytest.approx(1 / 7)
        else:
            assert apart > 1 / 7 - 1e-9
    assert len(pictures_of("hanoi/3").backdrop) == 39
    assert len(pictures_of("hanoi/12").backdrop) <= 5 * 3**5


def test_every_disk_and_ring_is_drawn_once():
    assert hanoi_picture((0, 2, 1, 1)).count("<rect") == 4
    widths = [float(w) for w in re.findall(r' width="([\d.]+)"', hanoi_picture((0, 0, 0)))]
    heights = [float(y) for y in re.findall(r' y="([\d.]+)"', hanoi_picture((0, 0, 0)))]
    assert widths == sorted(widths, reverse=True)
    assert heights == sorted(heights, reverse=True)  # the largest disk is drawn first, at the bottom
    assert rings_picture((1, 0, 1)).count('class="on"') == 2


@pytest.mark.parametrize("text", ["7", "HardState(round=0)", "(1, 'x')", "(1, 2", "__import__('os')"])
def test_only_tuples_of_numbers_are_puzzle_states(text):
    assert state_of(text) is None
    assert state_of("(0, 2, 1)") == (0, 2, 1)


def test_problems_have_their_own_pictures():
    assert pictures_of("layered/3x2") is None
    assert pictures_of("grid/3x4x5") is None
    assert pictures_of("chinese-rings/6").goal == (0,) * 6
    assert pictures_of("grid/6x5").place((5, 4)) == (1.0, 0.0)
    assert pictures_of("grid/6x5").place((0, 0)) == (0.0, 0.8)


def test_pictures_can_be_given(flat):
    mine = Pictures(lambda state: f'<text y="9">{state[0]}</text>', goal=(9,))
    trace = replace(flat, iterations=tuple(replace(i, path=_tuples(i.path), failures=()) for i in flat.iterations))
    drawn = data_of(trace_page("mine", trace, pictures=mine))["chart"]["pictures"]
    assert drawn["-1"] == '<text y="9">9</text>'
    assert '<text y="9">0</text>' in drawn.values()


def _tuples(path):
    return tuple(Step(s.stage, f"({s.state},)", s.action) for s in path)


# ------------------------------------------------------------------------------------------ the page


def test_the_page_tells_the_run(hanoi):
    data = data_of(trace_page("hanoi/4", hanoi))
    assert [step["queries"] for step in data["steps"]] == [i.queries for i in hanoi.iterations]
    assert sum(step["asked"] for step in data["steps"]) == hanoi.iterations[-1].queries
    assert [step["upper"] for step in data["steps"]] == pytest.approx([i.upper for i in hanoi.iterations], abs=1e-6)
    assert [step["lower"] for step in data["steps"]] == [None] * 4 + [
        -15.0
    ] * 2  # found, and found again after the attack
    assert [len(step["path"]) for step in data["steps"]] == [len(i.path) for i in hanoi.iterations]
    spots = data["chart"]["spots"]
    for step, now in zip(data["steps"], hanoi.iterations, strict=True):
        assert [spots[i][2] for i in step["path"]] == [s.state for s in now.path]
        assert [spots[i][2] for i, _ in step["failures"]] == [f.state for f in now.failures]
    assert data["chart"]["kind"] == "map"
    assert data["steps"][-1]["film"][-1] == [15, -1]


def test_columns_are_stages(flat):
    data = data_of(trace_page("layered/3x2", flat))
    assert data["chart"]["kind"] == "staged"
    for step, now in zip(data["steps"], flat.iterations, strict=True):
        assert [data["chart"]["spots"][i][0] for i in step["path"]] == [s.stage for s in now.path]
    assert [step["ended"] for step in data["steps"]] == [not i.failures for i in flat.iterations]


def test_sentences(hanoi, flat, noisy):
    assert sentence(hanoi, 0) == (
        "θ promises 0; but already at the start no action is consistent (the best falls short by 1): "
        "the state is recorded, which excludes this θ."
    )
    assert sentence(hanoi, 4, "move") == (
        "θ promises −15, and a path of 15 moves earns it: the bounds meet, and the path is optimal."
    )
    assert sentence(flat, 0).startswith(
        "θ promises 8 and is consistent for 3 steps; at stage 3 no action is consistent"
    )
    met = replace(noisy.iterations[0], failures=(Failure(3, "a", 0.5), Failure(4, "b", 0.2)))
    assert "meet 2 states (stages 3 and 4)" in sentence(replace(noisy, iterations=(met,)), 0)
    last = noisy.iterations[-1]
    assert f"the bounds on v* are {last.gap:.4g} apart." in sentence(noisy, len(noisy.iterations) - 1)
    apart = replace(hanoi, iterations=(replace(hanoi.iterations[4], lower=-17.0),))
    assert "the bounds are 2 apart" in sentence(apart, 0)


def test_the_page_shows_the_certificate(hanoi):
    certificate = tp.Certificate(
        1.5, 1.0, "eta", 0.05, 0.02, "v* <= <phi>", 0.25, ("no reward was seen",), 1.0, object()
    )
    page = trace_page("p", hanoi, certificate=certificate)
    claim = re.search(r'<section id="claim">(.*?)</section>', page, re.DOTALL)[1]
    assert re.findall("<p>(.*?)</p>", claim) == [html.escape(line) for line in certificate_lines([certificate])]
    assert "if v* &lt;= &lt;phi&gt;; the policy earns at least 1 in any case" in claim
    assert "eta explains 0.25; the lower bound holds at confidence 0.98" in claim
    assert "doubt: no reward was seen" in claim
    assert 'id="claim"' not in trace_page("p", hanoi)


def test_the_page_needs_nothing_from_outside(hanoi):
    page = trace_page("hanoi/4", hanoi)
    assert not re.search(r"\b(src|srcset|action)=|@import|url\((?!#)|fetch\(|XMLHttpRequest|WebSocket", page)
    assert re.findall(r'href="([^"]*)"', page) == ["data:,"]
    assert "default-src 'none'" in page


def test_text_from_outside_stays_text():
    evil = "</script><img src=x onerror=alert(1)>&<!--"
    path = (Step(0, repr(evil), 0), Step(1, repr(evil + "é\u2028"), 1))
    now = Iteration(1, (0.5, 0.1), 1.0, -math.inf, 3, 1, 0.1, 0.1, path, (Failure(2, repr(evil), 0.5),))
    trace = Trace("exact", (1.0, 0.0), 2.0, (), (), (now,))
    page = trace_page(evil, trace)
    assert "<img" not in page
    assert page.count("</script>") == 2
    data = data_of(page)
    assert f"<title>TensorPlan on {html.escape(evil)}</title>" in page
    assert data["chart"]["spots"][0][2] == repr(evil)


def test_the_same_run_gives_the_same_page(noisy):
    again = trace_of(tp.make("layered-stochastic/2x2", seed=1))
    assert again != noisy  # times differ
    assert trace_page("p", again) == trace_page("p", noisy)


def test_long_runs_stay_small():
    trace = trace_of(tp.make("hanoi/10"))
    page = trace_page("hanoi/10", trace)
    assert len(page) < 2_000_000
    film = data_of(page)["steps"][-1]["film"]
    assert len(film) <= 258
    assert film[0][0] == 0
    assert film[-1] == [1023, -1]


def test_nothing_to_show(hanoi, tmp_path):
    with pytest.raises(BadInput, match="holds no iteration"):
        trace_page("hanoi/4", replace(hanoi, iterations=()))
    with pytest.raises(BadInput, match="cannot write to"):
        write_trace_page("hanoi/4", hanoi, tmp_path / "missing" / "x.html")
    assert write_trace_page("hanoi/4", hanoi, tmp_path / "x.html").read_text("utf-8") == trace_page("hanoi/4", hanoi)
