"""Replicas answer as one simulator would, however many there are and whatever becomes of them."""

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from waiting import wait_for

import tensorplan as tp
from tensorplan.parallel import processes
from tensorplan.parallel.replicas import ReplicatedMDP

HERE = str(Path(__file__).parent)
SUPPORT = str(Path(__file__).parent.parent / "support")


class Noisy:
    """A walk with coins, in plain Python; its state is how often it went up."""

    horizon = 4
    actions = 3

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        if action == 2:
            raise ValueError("no such door")
        return float(rng.random()), state + int(rng.random() < 0.3 + 0.4 * action)


class Mortal(Noisy):
    """Dies at every tenth question or so, depending on how long it lived."""

    def __init__(self):
        self.age = 0

    def step(self, state, action, rng):
        self.age += 1
        if self.age == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(state, action, rng)


class Cursed(Noisy):
    def step(self, state, action, rng):
        os._exit(1)


class Meeting(Noisy):
    """Answers once all replicas are at a step, each of which leaves the number of its process in a folder."""

    def __init__(self, folder, replicas):
        self.folder, self.replicas = folder, replicas

    def step(self, state, action, rng):
        (self.folder / str(os.getpid())).touch()
        wait_for(lambda: len(list(self.folder.iterdir())) == self.replicas)
        return super().step(state, action, rng)


class Counter(Noisy):
    """Deterministic."""

    deterministic_transitions = deterministic_rewards = True

    def step(self, state, action, rng):
        return action / 2, 3 * state + action


def table():
    return tp.make("layered-stochastic/2x3:states=10:seed=1").mdp


def small():
    return tp.make("layered-stochastic/2x2:states=3:horizon=2:seed=1")


def small_table():
    return small().mdp


def problem(mdp):
    return tp.Problem(mdp, phi_v=lambda state, stage: np.array([1.0]), bound=1.0, name="replicated")


def samples(make, workers, n=12, **options):
    """A few batches through a metered access object."""
    with ReplicatedMDP(make, workers, **options) as mdp:
        task = problem(mdp)
        rng = np.random.default_rng(5)
        access = tp.LocalAccess(task, mdp.start(rng), rng)
        batches = [access.sample(access.root, action, n) for action in (0, 1, 0)]
        single = access.query(access.root, 1)[0]
        assert access.spent == 3 * n + 1
        found = [(b.rewards.tolist(), [b.successors[i].key for i in b.which]) for b in batches]
        return [*found, (single.reward, single.next.key)], mdp.calls


def test_the_answers_do_not_depend_on_the_number_of_replicas():
    one, calls = samples(Noisy, 1)
    assert samples(Noisy, 3) == (one, calls)
    assert calls == 37
    rewards, successors = one[0]
    assert len(set(rewards)) == 12  # every sample has a seed of its own
    assert set(successors) == {0, 1}
    assert one[2] != one[0]
    frequency = np.mean(samples(Noisy, 1, n=400)[0][1][1])
    assert 0.62 < frequency < 0.78  # 0.7 is right; 3.5 standard deviations


def test_vectorised_simulators_are_asked_for_whole_pieces():
    one, _ = samples(table, 1, batch=16)
    assert samples(table, 2, batch=16)[0] == one
    with ReplicatedMDP(table, 1, batch=16) as mdp:
        rewards, successors, which = mdp.step_batch(0, 1, 40, np.random.default_rng(3))
        drawn = int(np.random.default_rng(3).integers(2**63))
        direct = [table().step_batch(0, 1, n, np.random.default_rng((drawn, i))) for i, n in enumerate((16, 16, 8))]
    assert rewards.tolist() == np.concatenate([r for r, _, _ in direct]).tolist()
    assert [successors[i] for i in which] == [s[i] for _, s, w in direct for i in w]


def test_a_replica_that_dies_is_replaced_and_its_queries_asked_again():
    calm, calls = samples(Noisy, 2)
    disturbed, more = samples(Mortal, 2)
    assert disturbed == calm  # and the meter has counted each query once, see samples
    assert more > calls


def test_a_query_that_kills_them_all_is_an_error():
    with ReplicatedMDP(Cursed, 1) as mdp:
        task = problem(mdp)
        access = tp.LocalAccess(task, 0, np.random.default_rng(0))
        with pytest.raises(tp.ProblemError, match="3 replicas of the simulator died during the same query"):
            access.query(access.root, 0)


def test_an_error_of_the_simulator_is_told_as_usual_and_the_replicas_live_on():
    with ReplicatedMDP(Noisy, 2) as mdp:
        access = tp.LocalAccess(problem(mdp), 0, np.random.default_rng(0))
        with pytest.raises(tp.ProblemError, match=r"step_batch\(state=0, action=2, n=5\) .*ValueError: no such door"):
            access.sample(access.root, 2, 5)
        assert len(access.sample(access.root, 1, 5)) == 5


def test_replicas_work_at_the_same_time(tmp_path):
    with ReplicatedMDP(partial(Meeting, tmp_path, 4), 4) as mdp:
        rewards, _, _ = mdp.step_batch(0, 0, 8, np.random.default_rng(0))
    assert len(set(rewards)) == 8


def test_asking_ahead_gives_the_same_answers_in_fewer_rounds():
    def plan(**options):
        with ReplicatedMDP(Counter, 3, **options) as mdp:
            rng = np.random.default_rng(0)
            access = tp.LocalAccess(problem(mdp), 0, rng)
            found = [access.query(access.root, a)[0].reward for a in range(3)]
            return found, access.spent, mdp.calls

    assert plan() == plan(ahead=True) == ([0.0, 0.5, 1.0], 3, 3)
    with ReplicatedMDP(Counter, 3, ahead=True) as mdp:
        access = tp.LocalAccess(problem(mdp), 0, np.random.default_rng(0))
        access.query(access.root, 1)
        assert (access.spent, mdp.calls) == (1, 3)  # what was not asked for is not counted


def test_tensorplan_plans_with_replicas():
    task = small()
    with ReplicatedMDP(small_table, 2, batch=1000) as mdp:
        features = {"bound": task.bound, "solution": task.solution, "name": task.name}
        replicated = tp.Problem(mdp, task.phi_v, **features)
        one, two = (tp.run(replicated, tp.make_planner("tensorplan:delta=0.8"), seed=3).episodes[0] for _ in range(2))
    assert one.certificate == two.certificate
    assert one.actions == two.actions
    assert one.queries == two.queries
    optimal = task.optimal_value(one.start)
    assert one.certificate.lower <= optimal <= one.certificate.upper


def test_bad_arguments():
    with pytest.raises(tp.BadInput, match="workers must be a whole number >= 1"):
        ReplicatedMDP(Noisy, 0)
    with pytest.raises(tp.BadInput, match="engine must be one of local, ray"):
        ReplicatedMDP(Noisy, 1, engine="cloud")
    with pytest.raises(tp.BadInput, match="the address 'a:1' is that of a Ray cluster"):
        ReplicatedMDP(Noisy, 1, address="a:1")
    with pytest.raises(tp.BadInput, match="ahead=True needs an MDP that declares deterministic"):
        ReplicatedMDP(Noisy, 1, ahead=True)


def test_ray_actors_answer_the_same_and_are_replaced(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, SUPPORT]))  # where the actors find this file
    calm, _ = samples(Noisy, 1)
    assert samples(Mortal, 2, engine="ray")[0] == calm


def test_threads_are_one_in_new_processes_alone(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with processes.single_threaded():
        assert (os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]) == ("3", "1")
    assert "OPENBLAS_NUM_THREADS" not in os.environ


class Coin:
    """Declared deterministic, and not."""

    actions, horizon = 2, 3
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return float(rng.random() < 0.9), state + 1


@pytest.mark.parametrize("ahead", [False, True])
def test_chance_in_replicas_is_noticed(ahead):
    """Each question has random numbers of its own, what was asked ahead serves once, and draws are passed on."""
    with ReplicatedMDP(Coin, workers=1, ahead=ahead) as mdp:
        task = tp.Problem(mdp, lambda state, stage: np.eye(3)[state], bound=6.0)
        access = tp.LocalAccess(task, 0, np.random.default_rng(0))
        access.query(access.root, 0)
        assert access.drew

        def ask_again():
            for _ in range(100):
                access.recheck(access.root, 0)

        with pytest.raises(tp.ProblemError, match="declared to have deterministic rewards"):
            ask_again()


def test_replicas_draw_nothing_where_nothing_is_random():
    with ReplicatedMDP(Steady, workers=1) as mdp:
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        mdp.step(0, 1, rng)
        assert rng.bit_generator.state == before


class Steady(Coin):
    def step(self, state, action, rng):
        return 0.5, state + 1
