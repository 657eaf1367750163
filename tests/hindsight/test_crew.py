"""Processes and Ray give the brackets that one process gives."""

import pytest

import tensorplan as tp

PROBLEM = "queue-admission/10:features=poly2"
THETA = [2.0, -0.5, -0.1]


def threshold(state, stage):
    return int(state < 3)


def audited(policy=threshold, budget=60_000, **options):
    found = tp.audit(PROBLEM, policy, THETA, budget=budget, **options)
    return found.lower, found.upper, found.gap, found.scenarios, found.episodes, found.stages


@pytest.fixture(scope="module")
def alone():
    return audited()


def test_processes(alone):
    assert audited(workers=2) == alone
    assert alone[3] > 20


@pytest.mark.slow
def test_ray(alone):
    pytest.importorskip("ray")
    here = lambda state, stage: int(state < 3)  # noqa: E731, sent by value: Ray's processes do not have this module
    here.__module__ = "__main__"
    assert audited(here, workers=2, engine="ray") == alone


def test_errors_come_back():
    calls = []

    def policy(state, stage):
        calls.append(state)
        if len(calls) > 20_000:
            raise RuntimeError("no idea")
        return 0

    with pytest.raises(tp.ProblemError, match="no idea"):
        audited(policy, budget=400_000, workers=2)


def test_what_cannot_be_sent_is_named(monkeypatch):
    def policy(state, stage):
        return int(state < limit.value)

    class Limit:
        value = 3

        def __reduce__(self):
            raise TypeError("not me")

    limit = Limit()
    with pytest.raises(tp.BadInput, match="the policy or the problem cannot be sent to another process"):
        audited(policy, workers=2)


def test_the_engine_is_checked():
    with pytest.raises(tp.BadInput, match="engine"):
        audited(engine="cloud")
