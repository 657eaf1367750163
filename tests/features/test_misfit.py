"""Misfits against exact arithmetic, the full linear program and a cone solver; floors against any λ and any θ."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tensorplan.features import misfit
from tensorplan.features.misfit import Fitter, length, misfit_floor, norm_floor, residual


def exact_misfit(phi, x):
    """η as a fraction: the largest |λ·x| / ‖λ‖_1 over the λ of least support with Φᵀλ = 0 (vertices of the dual)."""
    best = Fraction(0)
    for size in range(1, len(x) + 1):
        for rows in combinations(range(len(x)), size):
            kernel = null_space([[phi[i][j] for i in rows] for j in range(len(phi[0]))], size)
            if len(kernel) == 1:
                weights = kernel[0]
                gain = sum(w * x[i] for w, i in zip(weights, rows, strict=True))
                best = max(best, abs(gain) / sum(map(abs, weights)))
    return best


def null_space(rows, columns):
    """A basis of {λ : rows λ = 0} in fractions, by elimination."""
    rows, pivots = [list(row) for row in rows], []
    for column in range(columns):
        pivot = next((r for r in range(len(pivots), len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        at = len(pivots)
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [entry / rows[at][column] for entry in rows[at]]
        for r in range(len(rows)):
            if r != at:
                rows[r] = [a - rows[r][column] * b for a, b in zip(rows[r], rows[at], strict=True)]
        pivots.append(column)
    basis = []
    for free in set(range(columns)) - set(pivots):
        vector = [Fraction(0)] * columns
        vector[free] = Fraction(1)
        for at, column in enumerate(pivots):
            vector[column] = -rows[at][free]
        basis.append(vector)
    return basis


def full_program(phi, x):
    """η by one linear program with all rows."""
    n, d = phi.shape
    ones = np.ones((n, 1))
    answer = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=np.block([[phi, -ones], [-phi, -ones]]),
        b_ub=np.concatenate([x, -x]),
        bounds=[(None, None)] * d + [(0, None)],
        method="highs",
    )
    assert answer.status == 0
    return answer.fun


def cone_program(phi, x, *, radius=None, eta=None):
    """min t with |x - Φθ| <= t, ‖θ‖ <= radius; or min t with |x - Φθ| <= eta, ‖θ‖ <= t."""
    clarabel = pytest.importorskip("clarabel")
    from scipy import sparse

    n, d = phi.shape
    level = -np.ones((n, 1)) if eta is None else np.zeros((n, 1))
    shift = 0.0 if eta is None else eta
    cone = np.zeros((d + 1, d + 1))
    cone[1:, :d] = -np.eye(d)
    if eta is not None:
        cone[0, d] = -1.0
    a = sparse.csc_matrix(np.vstack([np.hstack([phi, level]), np.hstack([-phi, level]), cone]))
    b = np.concatenate([x + shift, -x + shift, [0.0 if radius is None else radius], np.zeros(d)])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(2 * n), clarabel.SecondOrderConeT(d + 1)]
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((d + 1, d + 1)), np.append(np.zeros(d), 1.0), a, b, cones, options
    )
    return solver.solve().obj_val


def features(rng, n, d):
    raw = rng.standard_normal((n, d))
    return raw / np.linalg.norm(raw, axis=1).max()


def smooth(n, d):
    """Neighbouring rows are almost the same: what is hard for adding rows one at a time."""
    s = np.linspace(-1, 1, n)
    return np.polynomial.chebyshev.chebvander(s, d - 1) / np.sqrt(d), np.abs(s - 0.1)


CASES = {
    "random": lambda rng: (features(rng, 400, 12), rng.standard_normal(400)),
    "smooth": lambda rng: smooth(600, 12),
    "dependent": lambda rng: (features(rng, 300, 4) @ rng.standard_normal((4, 9)) / 10, rng.standard_normal(300)),
    "few rows": lambda rng: (np.repeat(features(rng, 5, 9), 2, axis=0), rng.standard_normal(10)),
    "one-hot": lambda rng: (np.eye(20)[rng.integers(20, size=200)], rng.standard_normal(200)),
}


# ------------------------------------------------------------------------------------------------------------- η


@pytest.mark.parametrize(
    ("columns", "values", "eta"),
    [
        (lambda s: [1, s], lambda s: s * s, Fraction(1, 2)),  # on -1, 0, 1: the line 1/2
        (lambda s: [1], lambda s: s, Fraction(1)),
        (lambda s: [s], lambda s: 1, Fraction(1)),
        (lambda s: [1, s, s * s], lambda s: abs(s), Fraction(0)),
    ],
)
def test_fits_with_known_answers(columns, values, eta):
    grid = [Fraction(s) for s in (-1, 0, 1)]
    phi, x = [columns(s) for s in grid], [values(s) for s in grid]
    assert exact_misfit([[Fraction(c) for c in row] for row in phi], x) == eta
    fit = Fitter(np.array(phi, dtype=float) / 2, np.array(x, dtype=float)).best()
    assert fit.lower <= eta <= fit.upper
    assert fit.upper - fit.lower <= 2e-9


whole_numbers = st.integers(-3, 3)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(st.lists(whole_numbers, min_size=d + 1, max_size=d + 1), min_size=1, max_size=6)
    )
)
def test_the_bracket_contains_the_truth(table):
    """Small whole numbers, dependent and repeated rows and columns among them."""
    phi, x = [row[:-1] for row in table], [row[-1] for row in table]
    truth = exact_misfit([[Fraction(c) for c in row] for row in phi], x)
    fit = Fitter(np.array(phi, dtype=float) / 6, np.array(x, dtype=float)).best()
    assert Fraction(fit.lower) <= truth <= Fraction(fit.upper)
    assert fit.upper - fit.lower <= 1e-8
    found = [Fraction(t) / 6 for t in fit.theta.tolist()]
    errors = [abs(v - sum(c * t for c, t in zip(row, found, strict=True))) for row, v in zip(phi, x, strict=True)]
    assert max(errors) <= Fraction(fit.upper)  # of θ as it is, in exact arithmetic


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("candidates", [misfit.CANDIDATES, 5])
def test_adding_rows_gives_what_all_rows_give(name, candidates, monkeypatch):
    monkeypatch.setattr(misfit, "CANDIDATES", candidates)
    phi, x = CASES[name](np.random.default_rng(1))
    fit = Fitter(phi, x).best()
    assert fit.upper == pytest.approx(full_program(phi, x), abs=1e-8)
    assert fit.lower == pytest.approx(fit.upper, abs=1e-8)
    assert len(fit.support) <= np.linalg.matrix_rank(phi) + 1
    assert fit.radius >= 1e6 * fit.upper


def test_a_large_table_needs_few_rows():
    phi, x = smooth(30_000, 20)
    fitter = Fitter(phi, x)
    fit = fitter.best()
    assert fit.upper - fit.lower <= 1e-8
    assert fit.upper == pytest.approx(Fitter(phi[::30], x[::30]).best().upper, rel=1e-3)
    assert len(fit.support) == 21  # de la Vallée-Poussin: the error alternates d + 1 times


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_units_do_not_matter(factor):
    phi, x = CASES["random"](np.random.default_rng(2))
    one, other = Fitter(phi, x), Fitter(phi, factor * x)
    assert other.best().upper == pytest.approx(factor * one.best().upper, rel=1e-7)
    assert other.best().lower == pytest.approx(factor * one.best().lower, rel=1e-7)
    assert other.shortest(0.0).upper == pytest.approx(factor * one.shortest(0.0).upper, rel=1e-5)


def test_nothing_to_fit_and_nothing_to_fit_with():
    zero = Fitter(np.zeros((3, 2)), np.array([1.0, -2.0, 0.5]))
    assert zero.best().upper == pytest.approx(2.0)
    assert zero.best().lower == pytest.approx(2.0)
    assert zero.best().radius == np.inf
    assert zero.shortest(3.0).upper == 0.0
    assert zero.within(1.0).upper == pytest.approx(2.0)
    flat = Fitter(np.ones((3, 2)) / 2, np.zeros(3))
    assert (flat.best().lower, flat.best().upper, flat.shortest(0.0).upper) == (0.0, 0.0, 0.0)


def test_the_same_to_the_bit():
    phi, x = CASES["random"](np.random.default_rng(3))
    first, second = (Fitter(phi, x) for _ in range(2))
    np.random.seed(1)
    assert np.array_equal(first.best().theta, second.best().theta)
    assert np.array_equal(first.shortest(0.0).theta, second.shortest(0.0).theta)
    assert np.array_equal(first.within(1.0).weights, second.within(1.0).weights)


# ------------------------------------------------------------------------------- bounds for any weights and any θ


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.just(0.0) | st.floats(0, 1e6), st.booleans(), st.booleans())
def test_floors_hold_in_exact_arithmetic(seed, radius, orthogonal, cancelling):
    """(<λ, x> - ‖Φᵀλ‖ R) / ‖λ‖_1 of the floats as they are, to sixty digits, is not below the floor."""
    rng = np.random.default_rng(seed)
    phi, x, weights = features(rng, 7, 3), rng.standard_normal(7), rng.standard_normal(7)
    if orthogonal:
        weights -= phi @ np.linalg.lstsq(phi, weights, rcond=None)[0]
    if cancelling:
        x[-1] -= (weights @ x - 1e-14) / weights[-1]
    entries = [[Fraction(c) for c in row] for row in phi.tolist()]
    lam = [Fraction(w) for w in weights.tolist()]
    total = sum(map(abs, lam))
    gain = sum(w * Fraction(v) for w, v in zip(lam, x.tolist(), strict=True))
    square = sum(sum(w * row[j] for w, row in zip(lam, entries, strict=True)) ** 2 for j in range(3))
    with localcontext() as context:
        context.prec = 60
        slope = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
        decimal = lambda f: Decimal(f.numerator) / Decimal(f.denominator)  # noqa: E731
        truth = (decimal(gain) - slope * Decimal(radius)) / decimal(total)
        floor = misfit_floor(phi, x, weights, radius)
        assert Decimal(floor) <= max(truth, Decimal(0))
        assert floor >= float(truth) - 1e-14 * (1 + radius)
        needed = (decimal(gain) - Decimal("0.25") * decimal(total)) / slope if slope else None
        if needed is not None:
            assert Decimal(norm_floor(phi, x, weights, 0.25)) <= max(needed, Decimal(0))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 5))
def test_no_parameter_is_below_the_floors(seed, radius):
    rng = np.random.default_rng(seed)
    phi, x, weights, theta = features(rng, 8, 3), rng.standard_normal(8), rng.standard_normal(8), rng.standard_normal(3)
    theta *= radius / np.linalg.norm(theta)
    errors = np.abs(x - phi @ theta)
    assert errors.max() >= misfit_floor(phi, x, weights, radius) - 1e-12
    assert radius >= norm_floor(phi, x, weights, errors.max()) - 1e-12
    assert residual(phi, x, theta) == pytest.approx(errors.max())
    assert length(theta) >= np.linalg.norm(theta)


# ---------------------------------------------------------------------------------------------------- N(η), η_R


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_least_norm_is_that_of_a_cone_program(name, share):
    phi, x = CASES[name](np.random.default_rng(4))
    fitter = Fitter(phi, x)
    eta = fitter.best().upper + (share * np.abs(x).max() or 1e-5)  # at η itself the cone solver has no interior
    found = fitter.shortest(eta)
    assert found.upper == pytest.approx(cone_program(phi, x, eta=eta), rel=1e-5, abs=1e-7)
    assert found.lower == pytest.approx(found.upper, rel=1e-6)
    assert found.upper >= np.linalg.norm(found.theta)
    assert np.abs(x - phi @ found.theta).max() <= found.residual <= eta + 1e-8


def test_the_least_norm_at_the_best_fit():
    """At η itself: the smallest norm of a θ that attains it, found within rounding of the program's own bounds."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        fitter = Fitter(features(rng, 60, 4), rng.standard_normal(60))
        best, found = fitter.best(), fitter.shortest(0.0)
        assert found.residual <= best.upper + 1e-8
        assert found.lower == pytest.approx(found.upper, rel=1e-6)
        assert found.upper <= length(best.theta)


def test_the_least_norm_where_values_are_realized():
    rng = np.random.default_rng(5)
    phi = features(rng, 100, 3) @ rng.standard_normal((3, 6)) / 5  # rank 3 of 6: many θ realize the values
    x = phi @ rng.standard_normal(6)
    found = Fitter(phi, x).shortest(0.0)
    assert found.upper == pytest.approx(np.linalg.norm(np.linalg.lstsq(phi, x, rcond=None)[0]), rel=1e-6)
    assert found.lower == pytest.approx(found.upper, rel=1e-6)
    assert found.residual <= 1e-9


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.05, 0.4, 0.95, 2.0])
def test_the_misfit_in_a_ball_is_that_of_a_cone_program(name, share):
    phi, x = CASES[name](np.random.default_rng(6))
    fitter = Fitter(phi, x)
    radius = share * fitter.shortest(0.0).upper
    fit = fitter.within(radius)
    assert np.linalg.norm(fit.theta) <= radius
    assert np.abs(x - phi @ fit.theta).max() <= fit.upper
    truth = cone_program(phi, x, radius=radius)
    assert fit.lower - 1e-7 <= truth <= fit.upper + 1e-7
    assert fit.upper - fit.lower <= 1e-7


def test_bounds_stay_true_where_digits_run_out():
    """Monomials up to degree 29 in double precision: a better θ exists, and is longer than what the bound is for."""
    s = np.linspace(-1, 1, 400)
    phi, x = np.vander(s, 30, increasing=True) / np.sqrt(30), np.abs(s - 0.1)
    fitter = Fitter(phi, x)
    best, found = fitter.best(), fitter.shortest(0.0)
    truth = Fitter(np.polynomial.chebyshev.chebvander(s, 29) / np.sqrt(30), x).best()  # the same span, another basis
    assert truth.lower <= best.upper <= 2 * truth.upper
    assert best.lower <= truth.upper or best.radius < np.linalg.norm(np.polynomial.chebyshev.cheb2poly(truth.theta))
    assert found.lower <= found.upper
    assert np.abs(x - phi @ found.theta).max() <= found.residual
    ball = fitter.within(10.0)
    assert ball.lower <= ball.upper
    assert ball.upper == pytest.approx(cone_program(phi, x, radius=10.0), abs=1e-6)
