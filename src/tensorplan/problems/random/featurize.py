"""Features that realize the optimal values of any finite MDP, in any dimension d >= 2.

Given the values x(s) to realize, θ* is a vector of uniformly random direction and

    φ(s) = x(s) θ*/‖θ*‖² + sqrt(1 - x(s)²/‖θ*‖²) w(s),        w(s) a unit vector orthogonal to θ*,

so that <φ(s), θ*> = x(s) and ‖φ(s)‖ = 1.  The w(s) are drawn independently of the MDP around a random centre, so that
neither the norms nor the mean of the features reveal θ*.

With ``reach`` this holds only at reachable states, and the features of the others are random unit vectors: with both
maps, the class M^{v*/q* reach} of Weisz et al. (2022, section 2).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array, Problem
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, one_of, truth, whole
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

LENGTH = 1.25
"""‖θ*‖ relative to the largest value; it must exceed 1, so that all features have a part orthogonal to θ*."""

SLACK = 1.2
"""B relative to ‖θ*‖: a user would not know ‖θ*‖ exactly."""

DIMENSION = 5
"""The default d of ``"realizing"`` features."""


def realizing(spec: object) -> int | None:
    """d for a spec such as ``"realizing5"``, features computed from the exact solution; None for other specs."""
    found = re.fullmatch(r"realizing(\d{0,4})", spec) if isinstance(spec, str) else None
    return None if found is None else int(found[1] or DIMENSION)


def featurize(
    mdp: TabularMDP,
    d: int,
    *,
    kind: str = "v",
    eta: float = 0.0,
    bound: float | None = None,
    reach: bool = False,
    discount: float = 1.0,
    seed: int = 0,
    name: str = "tabular",
) -> Problem:
    """The MDP with features for v* ("v"), q* ("q") or both with one θ* ("vq").

    With ``eta`` > 0 the misspecification min_θ max_s |v*(s) - <φ(s), θ>| over all states is exactly eta, for each
    feature map: two states have parallel features, and no θ fits both values better.  With ``reach`` the features of
    unreachable states are random unit vectors.
    """
    d = whole("d", d, 2)
    one_of("kind", kind, ("v", "q", "vq"))
    eta, reach = number("eta", eta, 0.0), truth("reach", reach)
    if reach and eta:
        raise BadInput(f"reach and eta={eta:g} exclude each other: eta is the misspecification over all states")
    rng = np.random.default_rng(seed)
    solution = solve_tabular(mdp, discount)
    tables = {letter: solution.v if letter == "v" else solution.q for letter in kind}
    targets = {each: np.concatenate([t.ravel() for t in table]) for each, table in tables.items()}
    plans = {kind: _misspecify(x, eta, kind, rng) for kind, x in targets.items()}

    largest = max(float(np.abs(x).max(initial=0.0)) for x, _ in plans.values())
    theta, bound = draw_theta(d, largest, bound, rng)
    centre = rng.standard_normal(d)
    maps: dict[str, list[Array]] = {}
    for kind, (x, twins) in plans.items():
        phi = embed(x, theta, centre + rng.standard_normal((len(x), d)))
        for copy, original, ratio in twins:
            phi[copy] = ratio * phi[original]
        ends = np.cumsum([t.size for t in tables[kind]])[:-1]
        parts = np.split(phi, ends)
        maps[kind] = [part.reshape(*t.shape, d) for part, t in zip(parts, tables[kind], strict=True)]
    if reach:  # drawn last, so that θ* and the other features are the same as without
        _randomize_unreachable(mdp, maps, rng)

    def lookup(kind: str) -> Any:
        table = maps.get(kind)
        return None if table is None else lambda state, stage: table[stage][mdp.index(state, stage)]

    known: dict[str, Any] = {"solution": solution, "theta": theta, "eta": eta, "discount": discount}
    return Problem(mdp, lookup("v"), lookup("q"), bound=bound, name=name, **known)


def _randomize_unreachable(mdp: TabularMDP, maps: dict[str, list[Array]], rng: np.random.Generator) -> None:
    """Replace the features of unreachable states by random unit vectors."""
    masks = reachable(mdp)
    for table in maps.values():
        for part, mask in zip(table, masks, strict=True):
            raw = rng.standard_normal(part[~mask].shape)
            part[~mask] = raw / np.linalg.norm(raw, axis=-1, keepdims=True)


def reachable(mdp: TabularMDP) -> list[NDArray[np.bool_]]:
    """Masks of the states reachable from the start states, (S,) per stage; a single one without a horizon."""

    def ahead(stage: int, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        chances = np.repeat(mask, mdp.actions).astype(np.float64) @ mdp.matrix(stage)
        return np.asarray(chances)[: len(mdp.states(stage + 1))] > 0

    mask = np.zeros(len(mdp.states(0)), dtype=bool)
    mask[[state for state, _ in mdp.start_weights()]] = True
    if mdp.horizon is None:
        while (grown := mask | ahead(0, mask)).sum() > mask.sum():
            mask = grown
        return [mask]
    masks = [mask]
    for stage in range(mdp.horizon - 1):
        masks.append(ahead(stage, masks[-1]))
    return masks


def draw_theta(d: int, largest: float, bound: float | None, rng: np.random.Generator) -> tuple[Array, float]:
    """A random θ* that can realize values up to ``largest``, and B."""
    if bound is not None and number("bound", bound, 0.0) < largest:
        raise BadInput(f"features of norm 1 cannot realize values up to {largest:g} with bound {bound:g}")
    if bound == 0:
        raise BadInput("bound must be positive, got 0")
    length = min(LENGTH * largest or 1.0, bound or np.inf)
    direction = rng.standard_normal(d)
    theta: Array = direction * (length / np.linalg.norm(direction))
    return theta, float(bound or SLACK * np.linalg.norm(theta))


def embed(x: Array, theta: Array, raw: Array) -> Array:
    """Unit vectors φ with <φ, θ> = x, (..., d); ``raw`` (..., d) determines their direction orthogonal to θ."""
    square = float(theta @ theta)
    across = raw
    for _ in range(2):  # twice, because the first projection may leave rounding errors along θ
        across = across - np.multiply.outer(across @ theta / square, theta)
        across /= np.linalg.norm(across, axis=-1, keepdims=True)
    height = np.sqrt(np.maximum(0.0, 1.0 - x * x / square))
    return np.asarray(np.multiply.outer(x / square, theta) + height[..., None] * across)


def _misspecify(
    x: Array, eta: float, kind: str, rng: np.random.Generator
) -> tuple[Array, list[tuple[int, int, float]]]:
    """Values y within eta of x for θ* to realize, and a pair (copy, original, ratio) of parallel features.

    With φ_i = α φ_j and residuals x_i - y_i, x_j - y_j of size eta whose signs are
    those of λ = (1, -α), every θ has λ·(x - Φθ) = λ·x = eta ‖λ‖_1: no θ has an error below eta at both.
    """
    if eta == 0:
        return x, []
    i = int(np.argmax(np.abs(x)))
    if eta > abs(x[i]) or len(x) < 2:
        raise BadInput(
            f"eta={eta:g} cannot be attained for {kind}*: θ = 0 is within {abs(x[i]):g} of all {len(x)} values"
        )
    y = x + rng.uniform(-eta, eta, len(x))
    sign = 1.0 if x[i] > 0 else -1.0
    j = int(rng.choice(np.delete(np.arange(len(x)), i)))
    y[i] = x[i] - sign * eta
    y[j] = x[j] + sign * eta if sign * x[j] + eta > 0 else x[j] - sign * eta
    ratio = float(y[i] / y[j])
    return y, [(i, j, ratio) if abs(ratio) <= 1 else (j, i, 1 / ratio)]
