"""What the search certifies is accepted, where points are ahead of what is proven too; what is changed is not."""

import dataclasses
import math

import numpy as np
import pytest
from random_programs import touching_program

from tensorplan.optimism import CertificateError, Program, solve, verify
from tensorplan.optimism.verify.leaves import CLAIM
from tensorplan.optimism.verify.solution import FEASIBLE


@pytest.mark.parametrize("seed", range(3))
def test_certificates_of_programs_that_touch_the_ball_are_accepted(seed):
    rng = np.random.default_rng(seed)
    statuses = []
    for number in range(700):
        program = touching_program(rng)
        found = solve(program, gap=1e-7, node_limit=300, certificate=True)
        verify(program, found, exact=number % 10 == 0)
        statuses.append(found.status)
    assert statuses.count("optimal") > 250
    assert statuses.count("infeasible") > 60


def touching(hair):
    """x >= 1 + hair on the unit disc, and y is maximised: next to nothing is left, and y may be much larger."""
    return Program([0.0, 1.0], 1.0, [[-1.0, 0.0]], [-1.0 - hair])


@pytest.mark.parametrize("hair", [-1e-6, -1e-9, -1e-12, -1e-15, 0.0])
def test_the_value_of_a_point_may_be_the_bound_and_no_more(hair):
    program = touching(hair)
    found = solve(program, certificate=True)
    leaf = float(np.nanmax(found.certificate.bound))
    assert max(leaf, found.value) == found.bound
    assert found.value <= leaf + FEASIBLE
    for wrong in (
        {"bound": math.nextafter(leaf, -math.inf)},
        {"bound": found.bound + 3 * CLAIM},
        {"bound": leaf + 3 * FEASIBLE, "value": leaf + 3 * FEASIBLE},
        {"bound": math.nan},
        {"bound": math.inf},
        {"status": "infeasible"},
    ):
        with pytest.raises(CertificateError):
            verify(program, dataclasses.replace(found, **wrong))


@pytest.mark.parametrize("hair", [1e-15, 1e-12, 1e-9])
def test_less_than_nothing_has_a_point_within_the_tolerance_if_any(hair):
    program = touching(hair)
    found = solve(program, certificate=True)
    verify(program, found)
    assert found.theta is None or found.theta[0] >= 1 - 1e-8


def test_a_changed_certificate_of_a_program_that_touches_the_ball_is_refused():
    """A point that is moved out, multipliers that are changed, a claim that is lowered."""
    rng = np.random.default_rng(7)
    changed = 0
    while changed < 100:
        program = touching_program(rng)
        found = solve(program, gap=1e-7, node_limit=300, certificate=True)
        if found.status != "optimal" or not np.any(program.objective):
            continue
        changed += 1
        size = program.radius * float(np.linalg.norm(program.objective))
        outward = found.theta + 1e-5 * program.radius * program.objective / np.linalg.norm(program.objective)
        value = float(program.objective @ outward)
        lower = dataclasses.replace(found.certificate, bound=found.certificate.bound - 1e-5 * size)
        for wrong in (
            {"theta": outward, "value": value, "bound": max(value, found.bound)},
            {"bound": float(np.nanmax(found.certificate.bound)) - 1e-7 * size},
            {"certificate": lower, "bound": found.bound - 1e-5 * size},
        ):
            with pytest.raises(CertificateError):
                verify(program, dataclasses.replace(found, **wrong))
