"""Random trees with any multipliers: no feasible point is above what the checker confirms."""

import dataclasses

import numpy as np
import pytest
from certificates import INF, INTEGERS, both, put, refusal
from random_certificates import random_program, random_solution

from tensorplan.optimism.program import BoundTree, CertificateError
from tensorplan.optimism.verify import verify


def points(rng, program, count=4000):
    """Those of count random points of the ball that satisfy the program."""
    directions = rng.normal(size=(count, program.dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    thetas = directions * program.radius * rng.uniform(0, 1, (count, 1)) ** (0.5 / program.dimension)
    kept = (thetas @ program.rows.T <= program.rhs).all(axis=1)
    forms = np.abs(program.forms[..., 0] + np.einsum("iak,tk->tia", program.forms[..., 1:], thetas))
    if program.product:
        kept &= (forms.prod(axis=2) <= program.tol).all(axis=1)
    else:
        kept &= (forms <= program.tol[:, None]).any(axis=2).all(axis=1)
    return thetas[kept]


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("tight", [False, True])
def test_no_feasible_point_is_above_the_confirmed_bound(product, tight):
    rng = np.random.default_rng([product, tight])
    seen, close, empty, splits = 0, 0, 0, 0
    for _ in range(40 if tight else 120):
        program = random_program(rng, product)
        answer = random_solution(rng, program, tight)
        confirmed = both(program, answer)
        assert confirmed >= answer.bound or confirmed == pytest.approx(answer.bound, rel=1e-14, abs=1e-14)
        empty += (answer.certificate.bound == -INF).sum()
        splits += (answer.certificate.low == -INF).sum()
        thetas = points(rng, program)
        seen += len(thetas)
        if len(thetas):
            reached = (thetas @ program.objective).max()
            assert reached <= confirmed
            close += confirmed - reached < 0.25 * (1 + abs(reached))
    assert seen > 10_000
    assert empty > 5
    assert splits > 20
    assert close > 10 or not tight


def test_the_best_sampled_point_passes_as_theta():
    rng = np.random.default_rng(7)
    for _ in range(30):
        program = random_program(rng, bool(rng.integers(2)))
        answer = random_solution(rng, program, False)
        thetas = points(rng, program)
        if len(thetas):
            theta = thetas[np.argmax(thetas @ program.objective)]
            value = float(program.objective @ theta)
            both(program, dataclasses.replace(answer, status="optimal", theta=theta, value=value))


def mutate(rng, proof):
    """The certificate with one number of one array replaced by a plausible or an implausible one.

    Half of the changed ends keep the form of a cover or a split: the other end, or that of the sibling, goes along.
    """
    name = rng.choice([field.name for field in dataclasses.fields(BoundTree) if len(getattr(proof, field.name))])
    array = getattr(proof, name).copy()
    place = rng.integers(len(array))
    if name in INTEGERS:
        array[place] = rng.choice([array[place] - 1, array[place] + 1, rng.integers(-9, 9), -(2**63), 2**63 - 1])
    else:
        array[place] = rng.choice(
            [array[place] * 0.9, array[place] * 1.1, -array[place], rng.normal(), 0.0, -INF, INF, 1e200]
        )
    changed = {name: array}
    if name in ("low", "high") and rng.random() < 0.5:
        other = {"low": "high", "high": "low"}[name]
        before, after = getattr(proof, other), array[place]
        cover = before[place] == -getattr(proof, name)[place]
        siblings = (proof.parent == proof.parent[place]) & (np.arange(len(array)) != place)
        where = place if cover else np.argmax(siblings)
        changed[other] = put(before, where, -after if cover else after)
    return dataclasses.replace(proof, **changed)


def test_a_mutated_certificate_is_refused_or_still_right():
    rng = np.random.default_rng(11)
    refused, passed = 0, 0
    for _ in range(40):
        program = random_program(rng, bool(rng.integers(2)))
        answer = random_solution(rng, program, False)
        reached = (points(rng, program) @ program.objective).max(initial=-INF)
        for _ in range(50):
            proof = mutate(rng, answer.certificate)
            bound = float(np.fmax.reduce(proof.bound))
            changed = dataclasses.replace(answer, certificate=proof, bound=bound)
            try:
                confirmed = verify(program, changed)
            except CertificateError:
                refused += 1
                refusal(program, changed)
            else:
                passed += 1
                assert confirmed >= reached
                assert both(program, changed) >= reached
    assert refused > 500
    assert passed > 50
