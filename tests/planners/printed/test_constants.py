import math
from dataclasses import FrozenInstanceError
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorplan.core.errors import BadInput
from tensorplan.planners.printed.constants import constants, eluder_dimension, failure_bound, product_failures

EXAMPLE = {"A": 2, "d": 3, "H": 5, "delta": 0.5, "B": 1.0}
REASONABLE = st.tuples(
    st.integers(1, 4), st.integers(1, 8), st.integers(1, 30), st.floats(1e-3, 2.0), st.floats(0.01, 50.0)
)


# ------------------------------------------------------------------- the formulas, once more, from the paper


def precise(digits):
    return localcontext(Context(prec=digits, Emax=10**9, Emin=-(10**9)))


def exact(x):
    """A float as the decimal fraction that it is."""
    x = Fraction(x)
    return Decimal(x.numerator) / Decimal(x.denominator)


def printed_epsilon(E, A, H, delta):
    return (exact(delta) / Decimal(12 * H * H)) ** A / (Decimal(1) + Decimal(1) / (Decimal(2) * Decimal(E).sqrt()))


def printed_g(E, A, d, H, delta, B):
    inside = Decimal(2) * (exact(B) + 1) ** A * Decimal(3) ** A / (Decimal(H) ** A * printed_epsilon(E, A, H, delta))
    e = Decimal(1).exp()
    return int(Decimal(3) * Decimal(d + 1) ** A * (e / (e - 1)) * (Decimal(3) + Decimal(3) * inside * inside).ln() + 1)


def printed_samples(E, A, d, H, delta, B):
    """(n1, n2, n3), at least 1 each, with n3's logarithm closed where the proof needs it."""
    delta_, zeta = exact(delta), exact(delta) / Decimal(4 * H)

    def up(x):
        return max(1, int(x) + (x > int(x)))

    n1 = up(32 * (1 + 2 * exact(B)) ** 2 / delta_**2 * (Decimal(E + 1) / zeta).ln())
    log = (Decimal(4 * (E + 1) * n1 * H * A * (d + 1)) / zeta).ln()
    n2 = up(Decimal(1867 * H * H * (d + 1)) * (exact(B) + 1) ** 2 / (2 * delta_**2) * log)
    log = (Decimal(2 * (E + 1) * n1 * H * A) / zeta).ln()
    n3 = up(max(Decimal(n2), Decimal(32 * (H + 1) ** 2 * E) / printed_epsilon(E, A, H, delta) ** 2 * log))
    return n1, n2, n3


@given(REASONABLE)
def test_every_constant_is_the_papers(problem):
    A, _, H, delta, _ = problem
    found = constants(*problem)
    with precise(120):
        E = found.E_d
        assert printed_g(E, *problem) <= E
        assert printed_g(E - 1, *problem) > E - 1
        assert (found.n1, found.n2, found.n3) == printed_samples(E, *problem)
        epsilon = printed_epsilon(E, A, H, delta)
        c = Decimal(H) ** A * epsilon / (2 * Decimal(E).sqrt())
        expected = [float(epsilon), float(epsilon.log10()), float(c), float(c.log10())]
    assert [found.epsilon, found.log10_epsilon, found.c, found.log10_c] == pytest.approx(expected, rel=1e-13)
    assert found.zeta == found.threshold == delta / (4 * H)
    assert (found.failures, found.iterations, found.overridden) == (E + 1, E + 2, ())
    assert found.call_queries == A * found.n2
    assert found.init_queries == (E + 2) * (H * found.n1 * (1 + A * found.n2) + A * found.n3)
    assert isinstance(found.init_queries, int)


@settings(max_examples=40)
@given(st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.floats(0.1, 1e4), st.floats(0.01, 3.0))
def test_e_d_is_the_first_admissible_number_of_a_linear_scan(A, d, H, delta, B):
    def g(E):
        ratio = 2 * (B + 1) ** A * 3**A / (H**A * ((delta / (12 * H**2)) ** A / (1 + 1 / (2 * math.sqrt(E)))))
        return math.floor(3 * (d + 1) ** A * math.e / (math.e - 1) * math.log(3 + 3 * ratio**2) + 1)

    assert eluder_dimension(A, d, H, delta, B) == next(E for E in range(1, 10**6) if g(E) <= E)


def test_e_d_need_not_be_a_fixed_point():
    """Where G jumps over the diagonal, G(E) = E - 1 and G(E - 1) = E."""
    problems = [(1, 1, 1, delta, 1.0) for delta in np.linspace(0.5, 30, 300)]
    gaps = []
    with precise(60):
        for problem in problems:
            E = eluder_dimension(*problem)
            assert printed_g(E - 1, *problem) > E - 1
            gaps.append(E - printed_g(E, *problem))
    assert set(gaps) == {0, 1}


def test_worked_example():
    found = constants(**EXAMPLE)
    with precise(60):
        assert printed_g(1, 2, 3, 5, 0.5, 1.0) == 2249
        assert printed_g(2189, 2, 3, 5, 0.5, 1.0) == 2189
    assert (found.E_d, found.n1, found.n2) == (2189, 13_111, 38_739_380)
    assert found.epsilon == pytest.approx(2.74841e-6, rel=1e-5)
    assert found.epsilon * (1 + 1 / (2 * math.sqrt(2189))) == pytest.approx(2.7778e-6, rel=1e-4)
    assert found.c == pytest.approx(7.3429e-7, rel=1e-4)
    assert found.zeta == 0.025
    assert found.n3 == pytest.approx(7.96e18, rel=1e-3)  # 2.69e20 with the printed parenthesis
    assert found.init_queries == pytest.approx(3.5e22, rel=1e-2)
    assert found.call_queries == 77_478_760
    three = constants(**EXAMPLE | {"A": 3})
    assert three.E_d == 12_748
    assert three.n3 == pytest.approx(1.8e25, rel=1e-2)


def test_large_problems_keep_every_digit():
    problem = (50, 100, 1000, 0.1, 10.0)
    found = constants(*problem)
    with precise(1200):
        assert printed_g(found.E_d, *problem) <= found.E_d
        assert printed_g(found.E_d - 1, *problem) > found.E_d - 1
        assert (found.n1, found.n2, found.n3) == printed_samples(found.E_d, *problem)
    assert found.n3 > 10**900
    assert found.epsilon == 0.0
    assert found.log10_epsilon == pytest.approx(50 * math.log10(0.1 / 12e6))
    assert found.log10_c == pytest.approx(50 * math.log10(0.1 / 12e3) - math.log10(2) - math.log10(found.E_d) / 2)


@pytest.mark.parametrize("delta", [1e-100, 1e100])
def test_extreme_losses_give_whole_numbers(delta):
    found = constants(2, 3, 5, delta, 1e200)
    with precise(1000):
        assert (found.n1, found.n2, found.n3) == printed_samples(found.E_d, 2, 3, 5, delta, 1e200)


@pytest.mark.parametrize(
    ("name", "values"),
    [("A", range(1, 6)), ("d", range(1, 6)), ("H", range(1, 9)), ("delta", [2.0, 1.0, 0.3, 0.01]), ("B", [0.1, 1, 9])],
)
def test_harder_problems_have_larger_constants(name, values):
    for easy, hard in pairwise(constants(**EXAMPLE | {name: value}) for value in values):
        for field in ("E_d", "n1", "n2", "n3", "init_queries", "call_queries"):
            assert getattr(easy, field) < getattr(hard, field), field
        assert hard.c < easy.c


# ------------------------------------------------------------------------------------------------- overrides


def test_later_formulas_use_what_is_in_force():
    paper = constants(**EXAMPLE)
    E = paper.E_d

    few = constants(**EXAMPLE, n1=7)
    assert few.n2 == math.ceil(1867 * 25 * 4 * 4 / 0.5 * math.log(4 * (E + 1) * 7 * 5 * 2 * 4 / 0.025))
    n3 = 32 * 36 * E / paper.epsilon**2 * math.log(2 * (E + 1) * 7 * 5 * 2 / 0.025)
    assert few.n3 == pytest.approx(n3, rel=1e-12)
    assert (few.n1, few.failures, few.overridden) == (7, E + 1, ("n1",))

    sure = constants(**EXAMPLE, zeta=1e-6)
    assert sure.zeta == 1e-6
    assert sure.n1 == math.ceil(32 * 9 / 0.25 * math.log((E + 1) / 1e-6))
    assert sure.n2 == math.ceil(1867 * 25 * 4 * 4 / 0.5 * math.log(4 * (E + 1) * sure.n1 * 5 * 2 * 4 / 1e-6))
    n3 = 32 * 36 * E / paper.epsilon**2 * math.log(2 * (E + 1) * sure.n1 * 5 * 2 / 1e-6)
    assert sure.n3 == pytest.approx(n3, rel=1e-12)

    assert constants(**EXAMPLE, n2=10**30).n3 == 10**30  # n3 is never below n2 ...
    assert constants(**EXAMPLE, n2=10**30, n3=4).n3 == 4  # ... unless told so


def test_all_overridden():
    found = constants(**EXAMPLE, n1=1, n2=2.0, n3=np.int64(3), c=0, zeta=0.1)
    assert (found.n1, found.n2, found.n3, found.c, found.zeta) == (1, 2, 3, 0.0, 0.1)
    assert found.overridden == ("n1", "n2", "n3", "c", "zeta")
    assert found.log10_c == -math.inf
    assert (found.failures, found.iterations) == (9, 10)  # C(5, 2) - 1
    assert found.init_queries == 10 * (1 * 5 * (2 * 2 + 1) + 2 * 3)
    assert found.call_queries == 4
    assert found.E_d == 2189
    assert found.threshold == 0.025
    with pytest.raises(FrozenInstanceError):
        found.n1 = 2


def test_another_c_has_another_cap():
    paper = constants(**EXAMPLE)
    same = constants(**EXAMPLE, c=paper.c)
    assert same.failures == product_failures(2, 3, 5, 0.5, 1.0, paper.c) == 68
    assert same.n3 == paper.n3
    loose = constants(**EXAMPLE, c=1.0)
    assert (loose.failures, loose.iterations, loose.init_queries) == (None, None, math.inf)
    assert constants(**EXAMPLE | {"A": 50, "d": 100}, c=1e-300).failures > math.comb(150, 50)


def test_product_failures_is_the_bound_at_its_own_constants():
    A, d, H, delta, B, c = 3, 2, 4, 0.3, 2.0, 1e-9
    bound = failure_bound(math.comb(5, 3), L=5**1.5, S=5**1.5, alpha=(0.3 / 48) ** 3, c=c)
    assert product_failures(A, d, H, delta, B, c) == bound > 10
    assert product_failures(1, d, H, delta, B, 0.0) == d


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": 0}, "A must be a whole number >= 1, got 0"),
        ({"d": 2.5}, "d must be a whole number >= 1, got 2.5"),
        ({"H": True}, "H must be a whole number >= 1, got True"),
        ({"delta": 0}, "delta must be positive, got 0"),
        ({"delta": math.inf}, "delta must be a number >= 0, got inf"),
        ({"delta": "1"}, "delta must be a number >= 0, got '1'"),
        ({"B": 0.0}, "B must be positive, got 0.0"),
        ({"B": -1}, "B must be a number >= 0, got -1"),
        ({"n1": 0}, "n1 must be a whole number >= 1, got 0"),
        ({"n2": 1.5}, "n2 must be a whole number >= 1, got 1.5"),
        ({"n3": -1}, "n3 must be a whole number >= 1, got -1"),
        ({"c": -1e-9}, "c must be a number >= 0, got -1e-09"),
        ({"c": math.nan}, "c must be a number >= 0, got nan"),
        ({"zeta": 0}, "zeta must lie strictly between 0 and 1, got 0"),
        ({"zeta": 1.0}, "zeta must lie strictly between 0 and 1, got 1.0"),
        ({"zeta": 1.5}, "zeta must be a number from 0 to 1, got 1.5"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(BadInput) as error:
        constants(**EXAMPLE | change)
    assert str(error.value) == message


# -------------------------------------------------------------------------------------- the potential bound

LAMBDAS = np.exp(np.linspace(-60.0, 30.0, 60_001))


def excluded_on_a_grid(n, D, L, S, alpha, c):
    """Whether some λ of the grid contradicts n failures: the inequality as it is stated, before any algebra."""
    left = n * np.log1p(alpha**2 / (LAMBDAS * S**2 + n * c**2))
    return bool((left > D * np.log1p(n * L**2 / (LAMBDAS * D))).any())


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_is_where_a_grid_of_lambdas_begins_to_exclude(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 12))
    L, S = rng.uniform(0.5, 3.0, size=2)
    alpha = L * S * rng.uniform(0.001, 0.9)
    c = alpha * rng.uniform(0.001, 0.5) / math.sqrt(D)
    bound = failure_bound(D, L=L, S=S, alpha=alpha, c=c)
    if bound is None:
        assert not any(excluded_on_a_grid(n, D, L, S, alpha, c) for n in (D, 10 * D, 10**4 * D, 10**8 * D))
    else:
        assert bound >= D
        assert not excluded_on_a_grid(bound, D, L, S, alpha, c)
        assert excluded_on_a_grid(bound + 1, D, L, S, alpha, c)
        assert excluded_on_a_grid(50 * bound, D, L, S, alpha, c)


def test_published_examples():
    """FACTS C6: product mode at the paper's c, where a failure means every |TD| > 0.157 δ/H; slab depths for d = 3."""
    c = constants(**EXAMPLE).c
    assert failure_bound(10, L=5, S=2, alpha=(0.157 * 0.1) ** 2, c=c) == 41
    slab = {"L": math.sqrt(5), "S": math.sqrt(2), "alpha": 0.0115}
    depths = [failure_bound(4, **slab, c=0.0115 / ratio) for ratio in (11.5, 20, 50, 8)]
    assert depths == [65, 26, 15, None]


def test_limits_of_the_bound():
    assert failure_bound(7, L=1, S=1, alpha=0.5, c=0.0) == 7
    assert failure_bound(7, L=1, S=1, alpha=0.5, c=1e-200) == 7  # continuous at 0
    assert failure_bound(7, L=1, S=1, alpha=1.0, c=0.1) == 0  # <x, f> cannot be above LS
    assert failure_bound(7, L=1, S=1, alpha=0.5, c=0.5) is None
    bounds = [failure_bound(7, L=1, S=1, alpha=0.5, c=0.5 / ratio) for ratio in (1000, 100, 30, 12)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


@pytest.mark.parametrize(("D", "ratio"), [(1, 4.0), (1, 10.0), (2, 7.0), (2, 10.0), (3, 7.0), (3, 30.0), (5, 30.0)])
def test_no_eluder_sequence_is_longer_than_the_bound(D, ratio):
    """Greedy ones: among many directions the longest f allowed, and the shortest x along it that fails."""
    alpha = 0.05
    c = alpha / ratio
    bound = failure_bound(D, L=1.0, S=1.0, alpha=alpha, c=c)
    longest = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        xs = np.zeros((0, D))
        while len(xs) <= bound:
            directions = rng.normal(size=(400, D))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            reach = np.abs(directions @ xs.T).max(axis=1, initial=c)  # the length of f is c / reach, at most S = 1
            f = directions[np.argmin(reach)] * c / reach.min()
            x = f * alpha * (1 + 1e-9) / (f @ f)
            if np.linalg.norm(x) > 1:
                break
            xs = np.vstack([xs, x])
        longest = max(longest, len(xs))
    assert D < longest <= bound  # the left: they are no trivial ones


def test_without_slack_the_bound_is_attained():
    """A = d = 2: five pairs of lines in the plane through θ* = 0, each missing its own θ, which is on all before it."""
    thetas = np.array([[1, 0, 2], [1, 1, 0], [1, 2, 0], [1, 1, 1], [1, 2, 3]])
    lines = np.array(  # (failure, action, [1, θ])
        [
            [[0, 0, 1], [1, -2, 1]],
            [[0, -1, 1], [-2, 1, 0]],
            [[0, -1, 1], [-3, 0, 1]],
            [[0, -3, 2], [1, 0, 1]],
            [[0, 1, 0], [1, 0, 1]],
        ]
    )
    products = np.prod(lines @ thetas.T, axis=1)  # (failure, θ)
    assert np.diag(products).all()
    assert not np.triu(products, 1).any()
    assert not np.prod(lines[:, :, 0], axis=1).any()
    assert len(thetas) == product_failures(2, 2, 5, 0.5, 4.0, 0.0)
