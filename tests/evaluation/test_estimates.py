import math

import numpy as np
import pytest
from scipy import stats

from tensorplan.evaluation.estimates import student


def test_student_agrees_with_scipy():
    x = np.random.default_rng(0).normal(size=12)
    low, high = stats.t.interval(0.95, 11, loc=x.mean(), scale=stats.sem(x))
    assert student(x) == pytest.approx((x.mean(), low, high))


def test_one_value_has_no_interval():
    assert student([3.0]) == (3.0, -math.inf, math.inf)
    assert math.isnan(student([]).mean)
