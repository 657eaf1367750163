"""What tests of BiLin-UCB share: global access, plannings, exact values of policies."""

import numpy as np
from scipy import stats

import tensorplan as tp
from tensorplan.planners.bilin_ucb.planner import BiLinUCB


def too_many(n, p=0.05):
    return int(stats.binom.isf(1e-6, n, p)) + 1


def everywhere(task, seed=0, **options):
    rng = np.random.default_rng(seed)
    return tp.GlobalAccess(task, task.mdp.start(rng), rng, **options)


def plan(task, planner=None, seed=0, **options):
    access = everywhere(task, seed, **options)
    return access, (planner or BiLinUCB()).begin(access, np.random.default_rng(seed))


def value(task, access, policy):
    """v^π(s0) by backward induction over the whole table."""
    table = [[policy.act(access.node(s, h)) for s in task.mdp.states(h)] for h in range(task.horizon)]
    return tp.evaluate_tabular(task.mdp, table).value(access.root.key, 0)


def small(seed, *, few=False, **options):
    """Both maps are right at every state; with ``few`` there are so few of them that (C) leaves much open."""
    rng = np.random.default_rng(seed)
    sizes = {"actions": int(rng.integers(2, 5)), "horizon": int(rng.integers(2, 5)), "kind": "vq", "seed": seed}
    sizes |= {"d": int(rng.integers(6, 10)), "states": 2} if few else {"d": int(rng.integers(2, 5))}
    if not few:
        sizes["states"] = int(rng.integers(5, 11))
    return tp.make("layered", **{**sizes, **options})


def holds(hypotheses, theta):
    """Whether θ satisfies every row and every disjunction of the program so far, tolerances included."""
    sol = hypotheses.sol
    rows = all(row @ theta <= bound for row, bound in zip(sol.rows, sol.rhs, strict=True))
    one = np.concatenate([[1.0], theta])
    return rows and all(np.abs(f @ one).min() <= tol for f, tol in zip(sol.forms, sol.tol, strict=True))
