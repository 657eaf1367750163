"""M̄ through access to M: its price, and the same answers as the delayed problem itself."""

import copy
import math

import numpy as np
import pytest
from helpers import Walk, local
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplan as tp
from tensorplan.access.delayed import DelayedAccess, DelayedNode
from tensorplan.access.local import LocalNode
from tensorplan.problems.transforms.delayed import DelayedState, delayed

EXACT = "layered/3x4:states=6:horizon=4:kind=q"
NOISY = EXACT + ":noise=true"


class Door(Walk):
    """A walk that ends at 2, with rewards by chance."""

    deterministic_transitions = True

    def step(self, state, action, rng):
        return float(rng.integers(2)), tp.END if state + action == 2 else state + action


def walk(mdp=None):
    def phi_q(state, stage):
        return np.array([[0.1, 0.1 * stage], [0.2, 0.1 * stage]])

    return tp.Problem(mdp if mdp is not None else Door(), phi_q=phi_q, bound=1.0, name="walk")


def opened(task, seed=0, **options):
    """M's access object and M̄'s."""
    access = local(task, seed, **options)
    return access, DelayedAccess(access)


def seen(node):
    return node if node is tp.END else (node.stage, node.key, node.phi_v.tolist())


# ------------------------------------------------------------------------------------------ the same as the problem


@pytest.mark.parametrize("spec", [EXACT, NOISY])
def test_facts_are_those_of_the_delayed_problem(spec):
    task = tp.make(spec)
    _, bar = opened(task)
    twin = local(delayed(task))
    facts = "problem_name horizon actions reward_range deterministic_transitions deterministic_rewards bound dimension"
    for name in [*facts.split(), "has_phi_v", "has_phi_q", "spent", "remaining"]:
        assert getattr(bar, name) == getattr(twin, name), name
    assert (bar.horizon, bar.dimension) == (5, 5)
    assert bar.bound == math.sqrt(2) * task.bound
    assert seen(bar.root) == seen(twin.root) == (0, (0, None), [1, 0, 0, 0, 0])


TASKS = {"exact": tp.make(EXACT), "noisy": tp.make(NOISY), "early END": walk()}


@st.composite
def plays(pick):
    """The name of a task, and actions for an episode of its delayed problem."""
    name = pick(st.sampled_from(sorted(TASKS)))
    steps, action = TASKS[name].horizon + 1, st.integers(0, TASKS[name].actions - 1)
    return name, pick(st.lists(action, min_size=steps, max_size=steps))


@settings(max_examples=30)
@given(plays(), st.integers(0, 99))
def test_answers_are_those_of_the_delayed_problem_to_the_bit(play, seed):
    task, actions = TASKS[play[0]], play[1]
    _, bar = opened(task, seed)
    twin = local(delayed(task), seed)
    mine, theirs = bar.root, twin.root
    for action in actions:
        one, two = bar.query(mine, action, 3), twin.query(theirs, action, 3)
        assert [(r, seen(s)) for r, s in one] == [(r, seen(s)) for r, s in two]
        ((r, mine),), ((s, theirs),) = bar.query(mine, action), twin.query(theirs, action)
        assert (r, seen(mine)) == (s, seen(theirs))
        if mine is tp.END:
            break
    assert mine is tp.END


@settings(max_examples=60)
@given(plays(), st.integers(0, 99), st.integers(0, 7))
def test_follow_and_walk_are_single_queries(play, seed, cut):
    task, actions = TASKS[play[0]], play[1][:cut]
    access, bar = opened(task, seed)
    rewards, nodes = [], [bar.root]
    for action in actions:
        ((reward, following),) = bar.query(nodes[-1], action)
        rewards.append(reward)
        nodes.append(following)
        if following is tp.END:
            break
    again, followed = opened(task, seed)
    trail = followed.follow(followed.root, iter(actions))
    assert (trail.rewards, seen(trail.last), again.spent) == (rewards, seen(nodes[-1]), access.spent)
    again, walked = opened(task, seed)
    path = walked.walk(walked.root, lambda node: actions[node.stage] if node.stage < len(actions) else None)
    assert [(seen(node), reward) for node, reward in path.steps] == [
        (seen(node), reward) for node, reward in zip(nodes, rewards, strict=False)
    ]
    assert (seen(path.last), again.spent) == (seen(nodes[-1]), access.spent)


def test_planners_see_nothing_special():
    task = tp.make(EXACT)
    _, bar = opened(task)
    policy = tp.SparseSampling(width=1).begin(bar, np.random.default_rng(0))
    assert policy.act(bar.root) == task.optimal_policy(0)


# ------------------------------------------------------------------------------------------ the closed loop


def returns(task, index):
    """What the greedy policy of θ̄* in M̄ collects in M, with M̄ at ``index(S_{t-1}, S_t, A_{t-1})``."""
    access, bar = opened(task)
    theta = delayed(task).theta

    def greedy(node):
        outcomes = [bar.query(node, a)[0] for a in range(task.actions)]
        return int(np.argmax([r + (0.0 if s is tp.END else s.phi_v @ theta) for r, s in outcomes]))

    before, action, total = access.root, greedy(bar.root), 0.0
    while True:
        ((reward, node),) = access.query(before, action)
        total += reward
        if node is tp.END:
            return total
        where = index(before, node, action)
        before, action = node, greedy(bar.pair(*where))


def test_the_delayed_state_is_the_state_before_with_the_action_taken_there():
    """Erratum: the paper prints (S_t, A_{t-1}), which acts as if A_{t-1} were executed once more."""
    tasks = [tp.make(f"layered/3x4:states=6:horizon=4:kind=q:seed={seed}") for seed in range(10)]
    best = [task.optimal_value(0) for task in tasks]
    assert [returns(task, lambda s, following, a: (s, a)) for task in tasks] == pytest.approx(best)
    printed = [returns(task, lambda s, following, a: (following, a)) for task in tasks]
    assert np.mean(best) - np.mean(printed) > 0.1


def test_a_pair_is_the_node_that_queries_return():
    access, bar = opened(tp.make(NOISY))
    ((_, node),) = bar.query(bar.root, 2)
    assert bar.pair(access.root, 2) is node
    ((_, following),) = bar.query(node, 1)
    ((_, below),) = access.query(access.root, 2)
    assert bar.pair(below, 1) is following
    assert (following.stage, following.key) == (2, (below.key, 1))
    assert following.phi_v.tolist() == [0, *below.phi_q[1]]


# ------------------------------------------------------------------------------------------ the price


def test_one_query_of_the_problem_per_sample_and_none_at_the_root():
    access, bar = opened(tp.make(NOISY))
    ((reward, node),) = bar.query(bar.root, 1)
    assert reward == 0.0
    assert bar.sample(bar.root, 0, 50).rewards.tolist() == [0.0] * 50
    assert [batch.successors[0].key for batch in bar.sample_all(bar.root, 5)] == [(0, 0), (0, 1), (0, 2)]
    bar.follow(bar.root, [1])
    bar.walk(bar.root, lambda node: 1 if node.stage == 0 else None)
    assert access.spent == bar.spent == 0
    bar.query(node, 0)
    bar.query(node, 0, 10)
    bar.sample(node, 1, 100)
    bar.follow(bar.root, [1, 0, 1])
    bar.walk(node, lambda node: 1 if node.stage < 3 else None)
    assert access.spent == bar.spent == 1 + 10 + 100 + 2 + 2


def test_one_batch_serves_all_next_actions():
    access, bar = opened(tp.make(NOISY))
    ((_, node),) = bar.query(bar.root, 1)
    batches = bar.sample_all(node, 200)
    assert access.spent == 200
    ((_, below),) = access.query(access.root, 1)
    for action, batch in enumerate(batches):
        assert len(batch) == 200
        assert {outcome.next for outcome in batch} == {bar.pair(below, action)}
        assert batch.rewards.tolist() == batches[0].rewards.tolist()
    assert set(batches[0].rewards) == {0.0, 1.0}
    assert len(batches) == 3


def test_local_access_asks_for_every_action():
    access = local(tp.make(NOISY))
    batches = access.sample_all(access.root, 20)
    assert access.spent == 60
    single = local(tp.make(NOISY))
    for action, batch in enumerate(batches):
        alone = single.sample(single.root, action, 20)
        assert batch.rewards.tolist() == alone.rewards.tolist()
        assert [o.next.key for o in batch] == [o.next.key for o in alone]


def test_deterministic_answers_are_charged_once_for_all_next_actions():
    access, bar = opened(tp.make(EXACT))
    ((_, node),) = bar.query(bar.root, 1)
    assert len({bar.query(node, action)[0].next.key for action in range(3)}) == 3
    bar.sample_all(node, 30)
    assert access.spent == 1


def test_the_budget_is_that_of_the_problem():
    access, bar = opened(tp.make(NOISY), budget=5)
    ((_, node),) = bar.query(bar.root, 1)
    assert bar.remaining == 5
    bar.sample_all(node, 3)
    with pytest.raises(tp.BudgetSpent, match="the budget of 5 queries is spent: 3 used, 3 more requested"):
        bar.sample_all(node, 3)
    assert (bar.spent, bar.remaining) == (3, 2)
    bar.query(node, 0, 2)
    with pytest.raises(tp.BudgetSpent):
        bar.query(node, 0)
    assert bar.query(bar.root, 0)[0].next is bar.pair(access.root, 0)


# ------------------------------------------------------------------------------------------ END, and the horizon


def test_an_early_end_pays_and_ends():
    _, bar = opened(walk(Door(horizon=20)))
    for ask in (bar.query, lambda node, action: bar.sample(node, action, 40)):
        trail = bar.follow(bar.root, [1, 1])
        outcomes = list(ask(trail.last, 0))
        assert {outcome.next for outcome in outcomes} == {tp.END}
    assert {outcome.reward for outcome in outcomes} == {0.0, 1.0}
    assert all(set(batch.successors) == {tp.END} for batch in bar.sample_all(trail.last, 3))


def test_the_last_stage_is_the_horizon_of_the_problem():
    _, bar = opened(walk(Door(horizon=3)))
    trail = bar.follow(bar.root, [0, 0, 0])
    assert trail.last.stage == 3
    assert bar.query(trail.last, 0)[0].next is tp.END


def test_without_a_horizon_the_stage_is_always_0():
    _, bar = opened(walk(Door(horizon=None)))
    assert bar.horizon is None
    ((_, node),) = bar.query(bar.root, 0)
    assert (node.stage, node.key) == (0, (0, 0))
    assert bar.query(node, 0)[0].next is node
    assert bar.follow(node, [1, 1, 0]).last is tp.END


# ------------------------------------------------------------------------------------------ nodes


def test_the_same_state_is_the_same_node():
    _, bar = opened(walk())
    stayed, again = (bar.follow(bar.root, [0, 0, 1]).last for _ in range(2))
    assert stayed is again
    assert bar.follow(bar.root, [0, 1]).last is not stayed  # another stage
    stayed.note = "mine"
    assert bar.follow(bar.root, [0, 0, 1]).last.note == "mine"
    for name in ("stage", "key", "phi_v"):
        with pytest.raises(AttributeError):
            setattr(stayed, name, 5)
    with pytest.raises(ValueError, match="read-only"):
        stayed.phi_v[0] = 1.0


def test_a_node_says_what_it_is():
    _, bar = opened(walk())
    assert repr(bar.root) == "<no action yet to be executed at <node 0 at stage 0>>"
    assert repr(bar.query(bar.root, 1)[0].next) == "<action 1 yet to be executed at <node 0 at stage 0>>"
    with pytest.raises(tp.BadInput) as error:
        _ = bar.root.phi_q
    assert str(error.value) == "problem 'delayed walk' has no phi_q"


def test_unhashable_states_work_without_identity():
    class Lists(Walk):
        deterministic_transitions = True

        def start(self, rng):
            return [0]

        def step(self, state, action, rng):
            return 0.5, [state[0] + action]

    access, bar = opened(walk(Lists()))
    trail = bar.follow(bar.root, [1, 1])
    assert trail.rewards == [0.0, 0.5]
    assert trail.last.key is None
    assert trail.last.phi_v.tolist() == [0.0, 0.2, 0.1]
    assert repr(trail.last) == "<action 1 yet to be executed at <node [1] at stage 1>>"
    assert access.spent == 1


def test_nodes_from_elsewhere_are_refused():
    access, bar = opened(walk())
    _, other = opened(walk())
    asks = [
        lambda node: bar.query(node, 0),
        lambda node: bar.sample(node, 0, 2),
        lambda node: bar.sample_all(node, 2),
        lambda node: bar.follow(node, []),
        lambda node: bar.walk(node, lambda node: None),
    ]
    for ask in asks:
        for node in (access.root, other.root, DelayedState(0, 1), 0, None):
            with pytest.raises(tp.NotReached, match="was not issued by this access object: only the root, pairs, and"):
                ask(node)
        with pytest.raises(tp.NotReached, match="END cannot be queried: it is absorbing"):
            ask(tp.END)
    assert access.spent == 0


def test_pairs_of_what_was_not_reached_cannot_be_asked():
    access, bar = opened(walk())
    elsewhere = LocalNode(access, 1, 1)
    for node in (
        bar.pair(elsewhere, 0),
        bar.pair(copy.copy(access.root), 0),
        DelayedNode(bar, DelayedState(elsewhere, 0), 2),
    ):
        with pytest.raises(tp.NotReached):
            bar.query(node, 0)
        with pytest.raises(tp.NotReached):
            bar.sample_all(node, 3)
    assert access.spent == 0


# ------------------------------------------------------------------------------------------ bad questions


@pytest.mark.parametrize("action", [2, -1, 1.0, "left", None, True])
def test_an_action_out_of_range_is_named_and_costs_nothing(action):
    access, bar = opened(walk())
    ((_, node),) = bar.query(bar.root, 1)
    for ask in (lambda: bar.query(node, action), lambda: bar.sample(node, action, 3)):
        with pytest.raises(tp.BadInput) as error:
            ask()
        assert str(error.value) == f"action {action!r} at state {node!r}, stage 1: actions are 0 .. 1"
    with pytest.raises(tp.BadInput, match=r"at state <no action yet .*>, stage 0: actions are 0 \.\. 1"):
        bar.query(bar.root, action)
    with pytest.raises(tp.BadInput, match=r"at state <node 0 at stage 0>, stage 0: actions are 0 \.\. 1"):
        bar.pair(access.root, action)
    assert access.spent == 0


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", None])
def test_the_number_of_samples_is_a_positive_whole_number(n):
    _, bar = opened(walk())
    sentence = r"the number of samples must be a .*whole number"
    for node in (bar.root, bar.query(bar.root, 1)[0].next):
        with pytest.raises(tp.BadInput, match=sentence):
            bar.query(node, 0, n)
        with pytest.raises(tp.BadInput, match=sentence):
            bar.sample_all(node, n)


def test_a_pair_is_made_of_a_node_of_the_problem():
    _, bar = opened(walk())
    for node in (tp.END, bar.root):
        with pytest.raises(tp.BadInput) as error:
            bar.pair(node, 0)
        assert str(error.value) == f"a pair needs a node of problem 'walk', got {node!r}"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("", "problem 'layered/2x3' has no phi_q, from which"),
        (":kind=q:branching=2", r"v̄\*\(\(s,a\)\) = q\*\(s,a\) needs them; .* is an open question"),
    ],
    ids=["v", "stochastic"],
)
def test_what_cannot_be_delayed_is_refused(options, sentence):
    with pytest.raises(tp.Refused, match=sentence):
        opened(tp.make("layered/2x3:states=5:horizon=3" + options))
