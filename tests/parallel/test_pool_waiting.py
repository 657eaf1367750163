"""Whoever waits for a reply can stop waiting."""

import time

import pytest

from tensorplan.parallel.pool import LocalPool


def make():
    return sleepy


def sleepy(request):
    time.sleep(request)
    return request


class Enough(Exception):
    pass


def test_a_wait_is_ended_by_an_error():
    pool, calls = LocalPool(make, 1), []

    def waiting():
        calls.append(1)
        if len(calls) == 3:
            raise Enough

    with pytest.raises(Enough):
        list(pool.replies([600.0], waiting=waiting))
    assert (pool.busy, pool.idle) == ({}, [])
    assert list(pool.replies([0.0, 0.3], waiting=lambda: None)) == [0.0, 0.3]
    pool.close()
