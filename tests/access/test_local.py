import copy
import math

import numpy as np
import pytest
from helpers import Walk, local, problem
from hypothesis import given
from hypothesis import strategies as st

import tensorplan as tp
from tensorplan.core import END
from tensorplan.testing import problems


class Coin(Walk):
    """Like Walk, but it moves with probability 1/2 and pays 0 or 1."""

    def step(self, state, action, rng):
        return float(rng.integers(2)), state + action * int(rng.integers(2))


class Broken(Walk):
    """Answers whatever it is told to."""

    def __init__(self, answer, **attributes):
        super().__init__(**attributes)
        self.answer = answer

    def step(self, state, action, rng):
        return self.answer() if callable(self.answer) else self.answer


# ------------------------------------------------------------------------------------------ who may be asked


def test_what_queries_return_may_be_queried():
    access = local(problem())
    node = access.root
    for stage in range(6):
        assert (node.stage, node.key) == (stage, stage)
        ((reward, node),) = access.query(node, 1)
        assert reward == 0.5
    assert node is tp.END
    assert access.spent == 6


def forge(node):
    """Look-alikes of a node, by every means short of writing to the access object's own memory."""

    class Fake:
        stage, key, phi_v, note = node.stage, node.key, np.zeros(2), None

    twin = object.__new__(type(node))
    for name in type(node).__slots__:
        setattr(twin, name, getattr(node, name))
    edited = copy.copy(node)
    edited._state = 4
    return [Fake(), twin, copy.copy(node), edited, type(node)(node._access, 4, 2), 0, None, "s", tp.END]


@pytest.mark.parametrize("ask", ["query", "sample", "follow", "walk"])
def test_forged_copied_and_edited_nodes_are_refused(ask):
    access = local(problem())
    arguments = {"query": (1,), "sample": (1, 2), "follow": ([1],), "walk": (lambda node: 1,)}[ask]
    for fake in forge(access.root):
        with pytest.raises(tp.NotReached):
            getattr(access, ask)(fake, *arguments)
    assert access.spent == 0


def test_nodes_of_another_access_object_are_refused():
    task = problem()
    mine, other = local(task), local(task)
    ((_, theirs),) = other.query(other.root, 1)
    with pytest.raises(tp.NotReached, match="belongs to another access object"):
        mine.query(theirs, 0)


def test_what_is_written_on_a_node_changes_nothing():
    access = local(problem())
    node = access.root
    for name in ("stage", "key", "phi_v", "state"):
        with pytest.raises(AttributeError):
            setattr(node, name, 5)
    node.note = "mine"
    ((_, following),) = access.query(node, 1)
    assert following.key == 1


def test_the_same_state_is_the_same_node():
    access = local(problem())
    ((_, stayed),) = access.query(access.root, 0)
    ((_, again),) = access.query(access.root, 0)
    assert stayed is again
    assert stayed is not access.root  # another stage


# ------------------------------------------------------------------------------------------ the meter


def test_every_sample_is_charged():
    access = local(problem(Coin()))
    access.query(access.root, 0)
    access.query(access.root, 0, 10)
    access.sample(access.root, 1, 100)
    access.follow(access.root, [1, 0, 1])
    access.walk(access.root, lambda node: 1 if node.stage < 2 else None)
    assert access.spent == 1 + 10 + 100 + 3 + 2
    assert access.remaining == math.inf


def test_a_spent_budget_asks_nothing():
    access = local(problem(Coin()), budget=5)
    access.query(access.root, 0, 3)
    with pytest.raises(tp.BudgetSpent, match="the budget of 5 queries is spent: 3 used, 3 more requested"):
        access.sample(access.root, 0, 3)
    assert (access.spent, access.remaining) == (3, 2)
    with pytest.raises(tp.BudgetSpent):
        access.follow(access.root, [0] * 6)
    assert access.spent == 5
    for ask in (lambda: access.query(access.root, 0), lambda: access.walk(access.root, lambda node: 0)):
        with pytest.raises(tp.BudgetSpent):
            ask()
    assert access.spent == 5


@pytest.mark.parametrize("budget", [-1, 2.5, "many", True])
def test_a_budget_is_a_whole_number(budget):
    with pytest.raises(tp.BadInput, match="the budget must be a whole number"):
        local(problem(), budget=budget)


def counting(**attributes):
    """A deterministic walk that counts the calls of its step."""

    class Counting(Walk):
        calls = 0
        deterministic_transitions = True
        deterministic_rewards = True

        def step(self, state, action, rng):
            type(self).calls += 1
            return super().step(state, action, rng)

    return Counting(**attributes)


def test_deterministic_answers_are_charged_once_per_state_and_action():
    mdp = counting()
    access = local(problem(mdp))
    for _ in range(3):
        access.query(access.root, 1)
        access.query(access.root, 1, 50)
        access.follow(access.root, [1, 0, 1])
    assert access.spent == mdp.calls == 3  # (0,1), (1,0), (1,1)
    # State 1 is met at stages 1 and 2: asked once, and still two nodes.
    assert access.follow(access.root, [1, 0]).last.stage == 2


def test_the_cache_is_an_option():
    mdp = counting()
    access = local(problem(mdp), cache=False)
    access.query(access.root, 1, 50)
    access.query(access.root, 1)
    assert access.spent == mdp.calls == 51


def test_the_last_stage_does_not_poison_the_cache():
    """A state that was seen at the last stage, where every step ends, goes on when met earlier."""
    access = local(problem(counting(horizon=3)))
    assert access.follow(access.root, [0, 0, 1]).last is tp.END
    ((_, following),) = access.query(access.root, 1)
    assert following.key == 1


# ------------------------------------------------------------------------------------------ the answers


@given(problems(), st.integers(0, 2**32 - 1))
def test_all_ways_to_ask_give_the_same_answers(task, seed):
    """With the same generator, query, follow and walk see the same path, to the bit."""
    actions = np.random.default_rng(seed).integers(task.actions, size=task.horizon).tolist()

    access = local(task, seed)
    rewards, node = [], access.root
    for action in actions:
        ((reward, node),) = access.query(node, action)
        rewards.append(reward)
        if node is tp.END:
            break
    last = None if node is tp.END else (node.stage, node.key)

    for ask in ("follow", "walk"):
        access = local(task, seed)
        if ask == "follow":
            trail = access.follow(access.root, actions)
            assert trail.rewards == rewards
        else:
            trail = access.walk(access.root, lambda node: actions[node.stage])
            assert [reward for _, reward in trail.steps] == rewards
            assert [node.stage for node, _ in trail.steps] == list(range(len(rewards)))
        assert (None if trail.last is tp.END else (trail.last.stage, trail.last.key)) == last


def test_a_batch_is_a_sequence_of_outcomes_and_arrays():
    access = local(problem(Coin()))
    batch = access.query(access.root, 1, 40)
    assert len(batch) == 40
    assert batch.rewards.tolist() == [o.reward for o in batch] == [batch[i].reward for i in range(40)]
    assert [batch.successors[i] for i in batch.which] == [o.next for o in batch]
    assert {o.next.key for o in batch} == {0, 1}
    assert [o.reward for o in batch[3:7]] == batch.rewards[3:7].tolist()
    assert all(access.query(o.next, 0) for o in batch)


def test_features_come_with_the_node():
    task = tp.make("layered/2x3:states=5:horizon=3:kind=vq")
    access = local(task)
    ((_, node),) = access.query(access.root, 1)
    assert np.array_equal(node.phi_v, task.state_features(node.key, 1))
    assert np.array_equal(node.phi_q, task.action_features(node.key, 1))


def test_unhashable_states_work_without_identity():
    class Lists(Walk):
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return [0]

        def step(self, state, action, rng):
            return 0.5, [state[0] + action]

    access = local(problem(Lists()))
    ((_, node),) = access.query(access.root, 1)
    assert node.key is None
    assert access.query(access.root, 1)[0].next is not node
    assert access.spent == 2  # no identity, no cache
    with pytest.raises(tp.BadInput, match=r"node \[0\] at stage 0.* cannot be hashed, and UCT must recognise states"):
        tp.run(problem(Lists()), tp.UCT())


# ------------------------------------------------------------------------------------------ bad answers


def raise_value_error():
    raise ValueError("no such place")


def ask(access, way):
    return {
        "query": lambda: access.query(access.root, 1),
        "batch": lambda: access.query(access.root, 1, 3),
        "follow": lambda: access.follow(access.root, [1, 1]),
        "walk": lambda: access.walk(access.root, lambda node: 1),
    }[way]()


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("way", ["query", "batch", "follow", "walk"])
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((1.5, 1), "gave the reward 1.5, which is outside of the declared range [0, 1]"),
        ((-1e-9, 1), "gave the reward -1e-09, which is outside of the declared range [0, 1]"),
        ((math.nan, 1), "gave the reward nan, which is not a number"),
        ((None, 1), "must return (reward, next_state), and gave the reward None, which is not a number"),
        (0.5, "must return (reward, next_state), got 0.5"),
        ((0.5, 1, False), "must return (reward, next_state), got 3 values: (0.5, 1, False)"),
        (raise_value_error, "raised ValueError: no such place"),
    ],
)
def test_bad_answers_are_one_sentence(answer, sentence, way, declared):
    mdp = Broken(answer, deterministic_transitions=declared, deterministic_rewards=declared)
    with pytest.raises(tp.ProblemError) as error:
        ask(local(problem(mdp)), way)
    assert str(error.value) == f"step(state=0, action=1) at stage 0 {sentence}"


def test_rewards_that_are_not_floats_are_converted():
    for reward in (1, True, np.float32(0.5), np.float64(0.25)):
        access = local(problem(Broken((reward, 1))))
        ((got, _),) = access.query(access.root, 1)
        assert type(got) is float
        assert got == float(reward)


@pytest.mark.parametrize("action", [2, -1, 1.0, "left", None, True])
@pytest.mark.parametrize("declared", [False, True])
def test_an_action_out_of_range_is_named(action, declared):
    access = local(problem(Walk(deterministic_transitions=declared, deterministic_rewards=declared)))
    asks = [
        lambda: access.query(access.root, action),
        lambda: access.sample(access.root, action, 3),
        lambda: access.follow(access.root, [action]),
    ]
    if action is not None:  # None ends a walk
        asks.append(lambda: access.walk(access.root, lambda node: action))
    for one in asks:
        with pytest.raises(tp.BadInput) as error:
            one()
        assert str(error.value) == f"action {action!r} at state 0, stage 0: actions are 0 .. 1"
    assert access.spent == 0


@pytest.mark.parametrize("n", [0, -1, 2.0, "3", None])
def test_the_number_of_samples_is_a_positive_whole_number(n):
    access = local(problem())
    with pytest.raises(tp.BadInput, match="the number of samples must be a positive whole number"):
        access.query(access.root, 0, n)


def flip(what):
    """Declared deterministic, but every call answers differently."""
    answers = iter(range(100))

    class Liar(Walk):
        deterministic_transitions = True
        deterministic_rewards = what == "reward"

        def step(self, state, action, rng):
            n = next(answers)
            return (n / 100, 1) if what == "reward" else (0.5, n)

    return problem(Liar())


@pytest.mark.parametrize(
    ("what", "first", "then"), [("reward", 0.0, 0.01), ("transition", 0, 1)], ids=["reward", "transition"]
)
def test_a_declared_deterministic_answer_that_changes_is_an_error(what, first, then):
    sentence = (
        f"step(state=0, action=1) at stage 0 is declared to have deterministic {what}s, "
        f"but the {what} was {first!r} and then {then!r}"
    )
    access = local(flip(what), cache=False)
    access.query(access.root, 1)
    with pytest.raises(tp.ProblemError) as error:
        access.query(access.root, 1)
    assert str(error.value) == sentence

    # With the cache on the simulator is not asked twice, but the world is compared with what it said.
    class AskOnce:
        def begin(self, access, rng):
            access.query(access.root, 1)
            return self

        def act(self, node):
            return 1

    with pytest.raises(tp.ProblemError) as error:
        tp.run(flip(what), AskOnce())
    assert str(error.value) == sentence


def test_features_that_change_are_an_error():
    calls = iter(range(100))

    class Look:
        def begin(self, access, rng):
            self.access = access
            return self

        def act(self, node):
            ((_, following),) = self.access.query(node, 1)
            _ = following.phi_v
            return 1

    task = problem(phi_v=lambda state, stage: np.array([0.0, next(calls) / 100]))
    with pytest.raises(tp.ProblemError, match=r"phi_v\(state=1, stage=1\) changed between two calls: entry 1 was"):
        tp.run(task, Look())


def test_a_batch_of_the_wrong_size_is_an_error():
    class Short(Walk):
        def step_batch(self, state, action, n, rng):
            return np.zeros(n - 1), [1], np.zeros(n, dtype=int)

    access = local(problem(Short()))
    with pytest.raises(tp.ProblemError, match=r"gave rewards of shape \(4,\) and indices of shape \(5,\)"):
        access.query(access.root, 0, 5)


def test_a_bad_reward_in_a_batch_is_named():
    class High(Walk):
        def step_batch(self, state, action, n, rng):
            return np.array([0.0, 7.0, 0.0]), [1], np.zeros(n, dtype=int)

    access = local(problem(High()))
    with pytest.raises(tp.ProblemError, match=r"step\(state=0, action=0\) at stage 0 gave the reward 7.0"):
        access.query(access.root, 0, 3)


class Sliding(Walk):
    """A simulator that steps many pairs at once: half of the steps stay, and state 3 ends half of the time."""

    horizon = 6

    def step(self, state, action, rng):
        return self.one(state, action, rng.random())

    def one(self, state, action, u):
        return float(u < 0.25), (END if state == 3 else state + action) if u < 0.5 else state

    def draw_noise(self, n, rng):
        return rng.random((n, 1))

    def step_many(self, states, actions, noise):
        u = noise[:, 0]
        return (u < 0.25).astype(float), np.where(u < 0.5, states + actions, states), (u < 0.5) & (states == 3)


def test_many_samples_are_drawn_by_step_many():
    access = local(problem(Sliding(step=None)), seed=3)  # step itself is never called
    mirror = np.random.default_rng(3).random(400)
    sample = access.sample(access.root, 1, 400)
    assert access.spent == 400
    assert [node.key for node in sample.successors] == [0, 1]
    expected = [Sliding().one(0, 1, u) for u in mirror.tolist()]
    assert [(r, node.key) for r, node in sample] == expected
    assert all(type(node.key) is int for node in sample.successors)
    assert sample.successors[0].stage == 1


def test_ends_drawn_by_step_many():
    access = tp.LocalAccess(problem(Sliding()), 3, np.random.default_rng(0))
    sample = access.sample(access.root, 1, 100)
    stays, ends = sample.successors
    assert (stays.key, ends) == (3, END)
    assert 20 < (sample.which == 1).sum() < 80
    short = tp.LocalAccess(problem(Sliding(horizon=1)), 0, np.random.default_rng(0))
    assert short.sample(short.root, 1, 50).successors == [END]


def test_step_many_is_metered_and_checked():
    access = local(problem(Sliding()), budget=10)
    with pytest.raises(tp.BudgetSpent):
        access.sample(access.root, 0, 11)
    assert access.spent == 0
    words = tp.LocalAccess(problem(Sliding()), "a", np.random.default_rng(0))
    with pytest.raises(tp.ProblemError, match="many states at once must be numbers"):
        words.sample(words.root, 0, 5)


def test_step_many_must_keep_what_is_declared_deterministic():
    access = local(problem(Sliding(deterministic_transitions=True)))
    with pytest.raises(tp.ProblemError, match="is declared to have deterministic transitions"):
        access.sample(access.root, 1, 50)
    fixed = Sliding(deterministic_transitions=True, horizon=1)
    access = local(problem(fixed))
    access.query(access.root, 0)
    assert access.sample(access.root, 0, 50).successors == [END]  # the last step ends, which contradicts nothing
