"""Servers in processes: order, errors, deaths."""

import os
import time

import pytest

import tensorplan as tp
from tensorplan.parallel.pool import DEATHS, ServerDied, Shipped, make_pool


def doubling():
    return double


def double(request):
    if isinstance(request, str):
        return ValueError(request)
    if request == 7:
        time.sleep(0.3)
    return 2 * request


def mortal():
    return die


def die(request):
    if request == 1:
        os._exit(3)
    return request


@pytest.fixture
def pool():
    made = make_pool(doubling, "local", 2, None)
    yield made
    made.close()


def test_replies_have_the_order_of_requests(pool):
    sent = []
    assert list(pool.replies(range(5, 25), sent.append)) == [2 * i for i in range(5, 25)]
    assert sent == list(range(5, 25))
    assert list(pool.replies([])) == []


def test_an_error_is_raised_in_its_turn(pool):
    found = []
    with pytest.raises(ValueError, match="bad"):
        found.extend(pool.replies([1, 7, "bad", 3]))
    assert list(pool.replies([4])) == [8]  # the pool goes on


def test_a_request_that_ends_servers_is_given_up():
    pool = make_pool(mortal, "local", 2, None)
    sent = []
    with pytest.raises(ServerDied):
        list(pool.replies([0, 1], sent.append))
    assert sent.count(1) == DEATHS
    pool.close()


def unmakeable():
    raise ImportError("not here")


def test_what_cannot_be_made_is_said():
    pool = make_pool(unmakeable, "local", 1, None)
    with pytest.raises(tp.BadInput, match="another process cannot make what it was sent: this raised ImportError"):
        list(pool.replies([1]))
    pool.close()


def test_addresses_are_for_ray():
    with pytest.raises(tp.BadInput, match="Ray cluster"):
        make_pool(doubling, "local", 1, "host:1")


def test_shipped_things_are_made_where_they_are_called():
    assert Shipped.of(doubling, "it")()(4) == 8
    limit = 3
    assert Shipped.of(lambda: lambda request: request < limit, "it")()(2)  # by cloudpickle
