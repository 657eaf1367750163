import json
import math
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import convex_optimum, enumerate_optimum, feasible, programs, random_program

from tensorplan.optimism import Program, ProgramError, Search, solve, verify
from tensorplan.optimism.kernels.state import NODES

GOLDEN = Path(__file__).parent.parent / "golden"


def test_the_optimum_equals_exhaustive_enumeration():
    """d 1..6, A 2..4, n 0..8, up to 256 assignments each solved by Clarabel (to about 1e-7)."""
    known = []

    @settings(max_examples=200)
    @given(programs())
    def check(case):
        program, star = case
        s = solve(program, certificate=True)
        best, complete = enumerate_optimum(program)
        known.append(complete)
        scale = program.radius * np.linalg.norm(program.objective)
        if best == -math.inf:
            # A set that Clarabel calls empty may be a single point to us, within the stated tolerance.
            assert s.status == "infeasible" or feasible(program, s.theta)
        elif s.status == "infeasible":
            pytest.fail(f"a program with optimum {best} was called infeasible")
        else:
            assert s.status == "optimal"
            assert s.value >= best - 2e-6 * scale
            assert s.value <= best + 2e-6 * scale or not complete
            assert s.bound >= s.value
            assert feasible(program, s.theta)
        if star is not None:
            assert s.bound >= program.objective @ star - 1e-9 * scale
        assert verify(program, s) >= s.value - 1e-9 * scale

    check()
    assert np.mean(known) >= 0.8


@pytest.mark.parametrize("seed", range(8))
def test_a_planted_parameter_is_never_cut_off(seed):
    """250 larger programs per seed (d to 12, n to 30): no enumeration, but θ* is feasible and may not be excluded."""
    rng = np.random.default_rng(1000 + seed)
    for _ in range(250):
        d, a, n = int(rng.integers(2, 13)), int(rng.integers(2, 5)), int(rng.integers(1, 31))
        star = rng.normal(size=d)
        star /= np.linalg.norm(star) * rng.choice([1.0, 1.5])
        forms = rng.normal(size=(n, a, d + 1))
        choice = rng.integers(a, size=n)
        for i in range(n):
            forms[i, choice[i], 0] = -forms[i, choice[i], 1:] @ star
        rows = rng.normal(size=(3 * d, d))
        rhs = rows @ star + rng.exponential(size=3 * d) * (rng.random(3 * d) < 0.8)
        program = Program(rng.normal(size=d), 1.0, rows, rhs, forms, float(rng.choice([0.0, 1e-3])))
        s = solve(program, node_limit=3000)
        assert s.status != "infeasible"
        assert s.bound >= program.objective @ star - 1e-9 * np.linalg.norm(program.objective)
        if s.theta is not None:
            assert feasible(program, s.theta)
            assert s.value <= s.bound + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_every_certificate_verifies(seed):
    """70 programs per seed with up to a million assignments, a third of them products, most stopped by the limit."""
    rng = np.random.default_rng(2000 + seed)
    for number in range(70):
        program, star = random_program(rng, dims=(1, 10), most=10**6, product=rng.random() < 0.3)
        s = solve(program, gap=1e-7, node_limit=2000, certificate=True)
        bound = verify(program, s, exact=number % 20 == 0)
        if star is not None:
            assert bound >= program.objective @ star - 1e-9 * program.radius * np.linalg.norm(program.objective)


def test_children_never_beat_their_parents():
    rng = np.random.default_rng(5)
    inner = 0
    for _ in range(60):
        program, _ = random_program(rng, dims=(2, 6), most=2000)
        search = Search(program)
        search.solve()
        tree = search._tree
        for node in range(1, int(tree.counters[NODES])):
            assert tree.bound[node] <= tree.bound[tree.parent[node]]
            inner += 1
    assert inner > 500


def test_the_node_problem_with_many_rows_agrees_with_another_solver():
    """No disjunctions: a ball and hundreds of rows, few of them active."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        d, m = int(rng.integers(1, 25)), int(rng.integers(0, 300))
        rows = rng.normal(size=(m, d))
        centre = rng.normal(size=d) / 2
        rhs = rows @ centre + rng.random(m)
        program = Program(rng.normal(size=d), float(rng.choice([0.3, 2.0, 50.0])), rows, rhs)
        s, best = solve(program), convex_optimum(program, [])
        scale = program.radius * np.linalg.norm(program.objective)
        if best == -math.inf:
            assert s.status == "infeasible"
        else:
            assert s.status == "optimal"
            assert abs(s.value - best) <= 1e-6 * scale
            assert 0 <= s.bound - s.value <= 1e-9 * max(1.0, abs(s.value), scale)


# ------------------------------------------------------------------------------------------ products


@pytest.mark.parametrize("seed", range(4))
def test_products_in_one_dimension_against_roots(seed):
    """In d = 1 the feasible set is a union of intervals between roots of Π l_a = ± tol."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        n, radius, tol = int(rng.integers(1, 4)), float(rng.choice([0.5, 2.0])), float(rng.choice([0.0, 0.05, 0.5]))
        a = int(rng.integers(1, 5))
        forms = rng.normal(size=(n, a, 2))
        star = rng.uniform(-radius, radius)
        for i in range(n):
            forms[i, 0, 0] = -forms[i, 0, 1] * star
        c = float(rng.choice([-1.0, 1.0]))
        program = Program([c], radius, forms=forms, tol=tol, product=True)
        s = solve(program, certificate=True)
        points = [-radius, radius, star]
        for i in range(n):
            polynomial = np.array([1.0])
            for b in range(a):
                polynomial = np.polymul(polynomial, forms[i, b, ::-1])
            for level in (-tol, tol):
                roots = np.roots(np.polysub(polynomial, [level]))
                points += [float(r.real) for r in roots if abs(r.imag) < 1e-9]
        products = [np.abs((forms[:, :, 0] + forms[:, :, 1] * x).prod(axis=1)) for x in points]
        held = [x for x, p in zip(points, products, strict=True) if abs(x) <= radius and (p <= tol + 1e-9).all()]
        best = max(c * x for x in held)
        assert s.status == "optimal"
        assert s.value == pytest.approx(best, abs=1e-5)
        assert verify(program, s) >= best - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_products_keep_every_feasible_point(seed):
    """Bounds are valid whether or not the gap closes within the limit, and it closes nearly always."""
    rng = np.random.default_rng(100 + seed)
    closed = 0
    for _ in range(25):
        program, star = random_program(rng, dims=(1, 4), product=True)
        s = solve(program, gap=1e-6, node_limit=20_000, certificate=True)
        assert verify(program, s) >= s.value - 1e-6
        closed += s.status != "limit"
        if star is not None:
            assert s.bound >= program.objective @ star - 1e-9
        if s.theta is not None:
            assert feasible(program, s.theta)
        for _ in range(50):
            theta = rng.normal(size=program.dimension)
            theta *= program.radius * rng.random() / np.linalg.norm(theta)
            if feasible(program, theta, slack=0.0):
                assert program.objective @ theta <= s.bound + 1e-9
    assert closed >= 23


@given(programs())
def test_a_zero_product_is_a_zero_factor(case):
    program, _ = case
    parts = (program.objective, program.radius, program.rows, program.rhs, program.forms, 0.0)
    one, two = solve(Program(*parts)), solve(Program(*parts, product=True))
    assert one.status == two.status
    assert one.value == two.value or abs(one.value - two.value) <= 1e-7


# ------------------------------------------------------------------------------------------ degenerate cases


def test_degenerate_programs():
    rng = np.random.default_rng(3)
    forms = rng.normal(size=(1, 2, 4))
    c = np.array([1.0, -2.0, 0.5])
    norm = float(np.linalg.norm(c))

    assert solve(Program(c, 2.0)).value == pytest.approx(2 * norm)
    assert solve(Program(c, 0.0)).value == 0.0
    assert solve(Program(np.zeros(3), 2.0, forms=forms)).value == 0.0
    assert solve(Program(c, 0.0, [[1, 0, 0]], [-1.0])).status == "infeasible"

    zero_row = Program(c, 1.0, [[0, 0, 0]], [1.0])
    assert solve(zero_row).value == pytest.approx(norm)
    assert solve(Program(c, 1.0, [[0, 0, 0]], [-1e-3])).status == "infeasible"

    duplicate = Program(c, 1.0, forms=np.repeat(forms, 5, axis=0))
    assert solve(duplicate).value == pytest.approx(solve(Program(c, 1.0, forms=forms)).value)

    contradiction = Program(c, 1.0, forms=[[[0.1, 1, 0, 0]], [[0.2, 1, 0, 0]]])
    assert solve(contradiction).status == "infeasible"

    constant = Program(c, 1.0, forms=[[[0.0, 0, 0, 0], [5.0, 1, 0, 0]]])
    assert solve(constant).value == pytest.approx(norm)
    never = Program(c, 1.0, forms=[[[0.5, 0, 0, 0], [5.0, 1, 0, 0]]])
    assert solve(never).status == "infeasible"

    point = Program(c, 1.0, np.vstack([np.eye(3), -np.eye(3)]), [0.1, 0.2, 0.3, -0.1, -0.2, -0.3])
    s = solve(point)
    assert s.theta == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("what", ["objective", "radius", "rows", "forms"])
def test_scales_from_a_millionth_to_a_million(scale, what):
    """Scaling rows or forms changes nothing; scaling c or (with all offsets) B scales the optimum."""
    rng = np.random.default_rng(17)
    for _ in range(20):
        p, _ = random_program(rng)
        tol = p.tol.copy()
        objective, radius, rows, rhs, forms = p.objective, p.radius, p.rows.copy(), p.rhs.copy(), p.forms.copy()
        factor = 1.0
        if what == "objective":
            objective, factor = objective * scale, scale
        elif what == "radius":
            radius, rhs, factor = radius * scale, rhs * scale, scale
            forms[:, :, 0] *= scale
            tol *= scale
        elif what == "rows":
            rows, rhs = rows * scale, rhs * scale
        else:
            forms, tol = forms * scale, tol * scale
        one = solve(p)
        program = Program(objective, radius, rows, rhs, forms, tol)
        two = solve(program, certificate=True)
        assert one.status == two.status
        if one.theta is not None:
            assert two.value == pytest.approx(one.value * factor, rel=1e-6, abs=1e-7 * factor)
        verify(program, two)


# ------------------------------------------------------------------------------------------ limits and growth


def hard_program(seed=0, d=12, n=36, a=3):
    rng = np.random.default_rng(seed)
    star = rng.normal(size=d)
    star *= 0.9 / np.linalg.norm(star)
    forms = rng.normal(size=(n, a, d + 1))
    for i in range(n):
        choice = rng.integers(a)
        forms[i, choice, 0] = -forms[i, choice, 1:] @ star
    return Program(rng.normal(size=d), 1.0, forms=forms), star


def test_a_limit_leaves_a_valid_bracket():
    program, _ = hard_program()
    full = solve(program)
    assert full.status == "optimal"
    before = math.inf
    for limit in (1, 20, 200):
        s = solve(program, node_limit=limit, certificate=True)
        assert s.status == "limit"
        assert s.bound >= full.value - 1e-9
        assert s.bound <= before + 1e-9
        assert s.theta is None or feasible(program, s.theta)
        assert verify(program, s) >= full.value - 1e-9
        before = s.bound
    assert solve(program, time_limit=0.0).bound >= full.value - 1e-9


def test_ctrl_c_leaves_a_valid_bracket():
    program, star = hard_program(1, d=18, n=90, a=4)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        s = solve(program, certificate=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert s.status == "limit"
    assert program.objective @ star - 1e-9 <= verify(program, s) <= np.linalg.norm(program.objective) + 1e-9


def test_a_search_goes_on_where_it_stopped():
    program, _ = hard_program()
    search = Search(program)
    stopped = search.solve(node_limit=200)
    resumed, fresh = search.solve(), solve(program)
    assert resumed.value == pytest.approx(fresh.value, abs=1e-8)
    assert resumed.nodes < fresh.nodes
    again = search.solve(certificate=True)  # what was found is kept, and only has to be looked at
    assert (again.status, again.value) == ("optimal", resumed.value)
    assert again.nodes <= 2
    assert again.bound <= stopped.bound
    verify(program, again)


def test_growing_a_program_gives_what_solving_it_afresh_gives():
    rng = np.random.default_rng(23)
    saved = 0
    for _ in range(30):
        program, _ = random_program(rng, dims=(3, 6), most=3000)
        if len(program.forms) < 3:
            continue
        half = len(program.forms) // 2
        rows = len(program.rows) // 2
        search = Search(
            Program(
                program.objective,
                program.radius,
                program.rows[:rows],
                program.rhs[:rows],
                program.forms[:half],
                program.tol[:half],
            )
        )
        first = search.solve()
        search.extend(program.rows[rows:], program.rhs[rows:], program.forms[half:], program.tol[half:])
        grown, fresh = search.solve(certificate=True), solve(program)
        assert grown.status == fresh.status
        assert grown.value == fresh.value or abs(grown.value - fresh.value) <= 1e-7
        assert grown.bound <= first.bound + 1e-9
        verify(program, grown)
        saved += fresh.nodes - grown.nodes
    assert saved > 0


def test_the_same_program_gives_the_same_answer_to_the_bit():
    program, _ = hard_program(3, d=8, n=16)
    one, two = solve(program, certificate=True), solve(program, certificate=True)
    assert (one.value, one.bound, one.nodes) == (two.value, two.bound, two.nodes)
    assert np.array_equal(one.theta, two.theta)
    assert np.array_equal(one.certificate.value, two.certificate.value)


def test_golden_program():
    data = json.loads((GOLDEN / "optimism_layered_4x20.json").read_text(encoding="utf-8"))
    fields = {k: data[k] for k in ("objective", "rows", "rhs", "forms", "tol")}
    program = Program(radius=data["radius"], **fields)
    s = solve(program, certificate=True)
    assert s.status == "optimal"
    assert s.value == pytest.approx(data["optimum"], abs=1e-6)
    assert verify(program, s) == pytest.approx(data["optimum"], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gap": -1.0}, "gap must be a finite number >= 0, got -1.0"),
        ({"gap": math.nan}, "gap must be a finite number >= 0, got nan"),
        ({"time_limit": -1}, "time_limit must be a number of seconds >= 0 or None, got -1"),
        ({"node_limit": 0}, "node_limit must be a number of nodes >= 1 or None, got 0"),
    ],
)
def test_bad_limits(options, sentence):
    with pytest.raises(ProgramError) as error:
        solve(Program([1.0], 1.0), **options)
    assert str(error.value) == sentence
