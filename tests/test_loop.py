import re
from pathlib import Path

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.loop import Driver, Streams


class Script:
    """A planner made of one function act(access, rng, node)."""

    def __init__(self, act, access="local"):
        self._act = act
        self.access = access

    def begin(self, access, rng):
        self.handle, self.rng = access, rng
        return self

    def act(self, node):
        return self._act(self.handle, self.rng, node)


class Noisy(Walk):
    def step(self, state, action, rng):
        return float(rng.random()), state + action


def test_queries_are_counted_per_call():
    run = tp.run(problem(), Script(lambda access, rng, node: len(access.query(node, 1, node.stage + 1)) and 1))
    (episode,) = run.episodes
    assert episode.queries == (1, 2, 3, 4, 5, 6)
    assert run.worst_call == 6
    assert episode.actions == (1,) * 6
    assert episode.total_reward == 3.0
    assert episode.stopped == "end"


def test_query_cost_is_the_mean_of_the_worst_call():
    episodes = tuple(
        tp.Episode(start=0, actions=(0, 0), rewards=(0.0, 0.0), queries=q, stopped="end", seconds=0.0)
        for q in ((10, 1), (0, 9), (2, 5))
    )
    cost = tp.query_cost(tp.Run("p", "q", 0, episodes))
    assert cost.mean == 5.0  # the second call: (1 + 9 + 5) / 3, against (10 + 0 + 2) / 3
    assert cost.low < 5.0 < cost.high


def test_the_same_seed_gives_the_same_run_to_the_bit():
    for planner in (tp.UCT(simulations=20), tp.RandomPlanner(), tp.SparseSampling(width=2)):
        task = tp.make("layered-stochastic/2x3")
        one, two = (tp.run(task, planner, episodes=3, seed=7) for _ in range(2))
        other = tp.run(task, planner, episodes=3, seed=8)
        strip = [(e.actions, e.rewards, e.queries) for e in one.episodes]
        assert strip == [(e.actions, e.rewards, e.queries) for e in two.episodes]
        assert strip != [(e.actions, e.rewards, e.queries) for e in other.episodes]


def test_the_three_streams_are_independent():
    """What a planner draws or asks must not move the world."""

    def lazy(access, rng, node):
        return 1

    def busy(access, rng, node):
        rng.random(17)
        access.query(node, 0, 5)
        return 1

    task = problem(Noisy())
    lazy_run, busy_run = tp.run(task, Script(lazy), 2), tp.run(task, Script(busy), 2)
    assert [e.rewards for e in lazy_run.episodes] == [e.rewards for e in busy_run.episodes]
    assert lazy_run.episodes[0].rewards != lazy_run.episodes[1].rewards


def test_an_episode_does_not_depend_on_how_many_there_are():
    task, planner = problem(Noisy()), tp.UCT(simulations=5)
    few, many = tp.run(task, planner, 1), tp.run(task, planner, 3)
    assert few.episodes[0].rewards == many.episodes[0].rewards


@pytest.mark.parametrize("action", [2, -1, 0.0, None, "up"])
def test_an_illegal_action_is_named(action):
    with pytest.raises(tp.BadInput, match=r"action .* at state 0, stage 0: actions are 0 \.\. 1"):
        tp.run(problem(), Script(lambda *_: action))


def test_a_budget_ends_the_episode_and_keeps_it():
    run = tp.run(problem(), Script(lambda access, rng, node: len(access.query(node, 1, 4)) and 1), budget=10)
    (episode,) = run.episodes
    assert episode.stopped == "budget"
    assert not episode.complete
    assert episode.queries == (4, 4)
    assert episode.steps == 2


def test_max_steps_cut_off_what_never_ends():
    (episode,) = tp.run(problem(Walk(horizon=None)), Script(lambda *_: 0), max_steps=50).episodes
    assert (episode.steps, episode.stopped) == (50, "max_steps")


def test_ctrl_c_keeps_what_was_done():
    def act(access, rng, node):
        access.query(node, 1)
        if node.stage == 3:
            raise KeyboardInterrupt
        return 1

    run = tp.run(problem(), Script(act), episodes=5)
    assert run.interrupted
    (episode,) = run.episodes
    assert episode.stopped == "interrupted"
    assert episode.actions == (1, 1, 1)
    assert episode.queries == (1, 1, 1, 1)


def test_an_error_carries_the_finished_episodes():
    starts = iter(range(100))

    class Fails(Walk):
        def start(self, rng):
            return next(starts)

        def step(self, state, action, rng):
            return (0.5 if state < 3 else 9.0), state

    with pytest.raises(tp.ProblemError, match=r"gave the reward 9\.0") as error:
        tp.run(tp.Problem(Fails(), lambda s, h: np.ones(1), bound=1.0), Script(lambda *_: 0), episodes=9)
    *finished, broken = error.value.run.episodes  # start 0 went to the dimension, 1 and 2 were played
    assert [e.stopped for e in finished] == ["end", "end"]
    assert (broken.stopped, broken.start, broken.actions) == ("failed", 3, ())


def test_a_failing_step_keeps_the_episode_with_its_queries():
    class Fails(Walk):
        def step(self, state, action, rng):
            if state == 4:
                raise OSError("no more map")
            return 0.5, state + action

    with pytest.raises(tp.ProblemError, match="raised OSError: no more map") as error:
        tp.run(problem(Fails()), Script(lambda access, rng, node: len(access.query(node, 0, 3)) and 1))
    (episode,) = error.value.run.episodes
    assert (episode.stopped, episode.actions, episode.queries) == ("failed", (1, 1, 1, 1), (3, 3, 3, 3, 1))


def test_a_start_that_raises_keeps_the_episodes_before():
    draws = iter(range(100))

    def start(rng):
        if next(draws) == 3:
            raise OSError("no map")
        return 0

    with pytest.raises(tp.ProblemError, match="raised OSError: no map") as error:
        tp.run(problem(Walk(start=start)), tp.RandomPlanner(), episodes=9)
    assert len(error.value.run.episodes) == 2  # the first draw went to the dimension


def test_an_error_of_the_planner_keeps_the_episodes_before():
    begun = []

    def act(access, rng, node):
        begun.append(node.stage)
        return 1 if begun.count(0) < 3 else 1 / 0

    with pytest.raises(ZeroDivisionError) as error:
        tp.run(problem(), Script(act), episodes=9)
    assert [e.stopped for e in error.value.run.episodes] == ["end", "end", "failed"]


class Flaky(Walk):
    """Every third call fails."""

    calls = 0

    def step(self, state, action, rng):
        self.calls += 1
        if self.calls % 3 == 0:
            raise TimeoutError("the server is busy")
        return 0.5, state + action


def test_a_simulator_that_fails_now_and_then_can_be_asked_again():
    act = Script(lambda access, rng, node: len(access.query(node, 0)) and 1)
    with pytest.raises(tp.ProblemError, match=r"raised TimeoutError: the server is busy$"):
        tp.run(problem(Flaky()), act)
    (episode,) = tp.run(problem(Flaky(), retries=1), act).episodes
    assert (episode.steps, episode.queries) == (6, (1,) * 6)  # a query that failed is charged once
    broken = Walk(step=lambda state, action, rng: 1 / 0)
    with pytest.raises(tp.ProblemError, match=r"raised ZeroDivisionError: division by zero \(tried 3 times\)"):
        tp.run(problem(broken, retries=2), act)
    with pytest.raises(tp.ProblemError, match="retries must be a whole number >= 0, got -1"):
        problem(retries=-1)


def test_the_window_closes_with_the_episode():
    kept = []

    def act(access, rng, node):
        if len(kept) < 6:
            kept.append((access, node))
        elif kept[0][0] is not access:
            with pytest.raises(tp.NotReached, match="the episode of this access object is over"):
                kept[0][0].query(kept[0][1], 0)
        return 1

    run = tp.run(problem(), Script(act), episodes=2, budget=3)
    assert [e.stopped for e in run.episodes] == ["end", "end"]


def test_what_the_world_did_is_told():
    told = []

    class Listener(Script):
        def observe(self, action, reward, node):
            told.append((action, reward, node is tp.END))

    tp.run(problem(), Listener(lambda *_: 1))
    assert told == [(1, 0.5, False)] * 5 + [(1, 0.5, True)]


def test_a_deterministic_episode_is_held_against_its_certificate():
    class Boaster(Script):
        certificate = tp.Certificate(4.0, 3.5, "certified")

    mdp = Walk(deterministic_transitions=True, deterministic_rewards=True)
    with pytest.raises(tp.ProblemError, match=r"earned 3, and its certificate promised 3\.5"):
        tp.run(problem(mdp), Boaster(lambda *_: 1))
    assert tp.run(problem(), Boaster(lambda *_: 1)).episodes[0].complete  # with chance it may earn less


def test_an_mdp_that_declares_something_else_later_is_refused():
    mdp = Walk()
    task = problem(mdp)
    mdp.horizon = 7
    with pytest.raises(tp.ProblemError, match="its MDP declared horizon=6 when the problem was made, and declares 7"):
        tp.run(task, tp.RandomPlanner())


def test_start_is_checked():
    def start(rng):
        raise OSError("no map")

    with pytest.raises(tp.ProblemError, match="gave END: there is nothing to plan"):
        tp.run(problem(Walk(start=lambda rng: tp.END), phi_v=lambda s, h: np.ones(2)), tp.RandomPlanner())
    with pytest.raises(tp.ProblemError, match="raised OSError: no map"):
        tp.run(problem(Walk(start=start)), tp.RandomPlanner())


def test_planners_get_the_access_that_they_declare():
    kinds = []
    for kind in ("local", "global", "model"):
        tp.run(problem(), Script(lambda access, rng, node: kinds.append(type(access).__name__) or 0, kind))
    assert list(dict.fromkeys(kinds)) == ["LocalAccess", "GlobalAccess", "ModelAccess"]
    with pytest.raises(tp.Refused, match="asks for 'magic' access"):
        tp.run(problem(), Script(lambda *_: 0, "magic"))


def test_progress_is_told_after_each_step():
    told = []
    tp.run(problem(), Script(lambda *_: 0), episodes=2, progress=lambda *args: told.append(args))
    assert told == [(e, s, 0) for e in range(2) for s in range(1, 7)]


@pytest.mark.parametrize("options", [{"episodes": 0}, {"seed": -1}, {"max_steps": 0}, {"budget": -1}])
def test_bad_arguments(options):
    with pytest.raises(tp.BadInput, match=next(iter(options))):
        tp.run(problem(), tp.RandomPlanner(), **options)


# ------------------------------------------------------------------------------------------------ the driver


def test_only_the_loop_lets_planners_meet_a_world():
    """Sessions, and planners made of planners, start those inside of them; what is admitted comes from the loop."""
    root = Path(tp.__file__).parent
    found = {"begin": set(), "admit": set()}
    for path in root.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        if re.search(r"\.begin\(\w*\.?access\b", text):
            found["begin"].add(name)
        if re.search(r"\b_(admit|witness|unchanged)\(", text):
            found["admit"].add(name)
    assert found["admit"] == {"loop.py", "access/local.py"}
    assert "loop.py" in found["begin"]
    elsewhere = found["begin"] - {"loop.py"}
    assert all(name.startswith("planners/") for name in elsewhere)


@pytest.mark.parametrize("spec", ["hanoi/3", "layered-stochastic/2x3"])
def test_a_world_of_somebody_elses_is_driven_as_in_a_run(spec):
    task = tp.make(spec)
    planner = tp.UCT(simulations=20)
    (played,) = tp.run(task, planner, seed=5).episodes
    streams = Streams.of(5, 0)
    driver = Driver(task, planner, task.mdp.start(streams.world), streams)
    driver.begin()
    actions, queries = [], []
    while driver.state is not tp.END:
        actions.append(driver.act())
        queries.append(driver.charge())
        _, following = task.mdp.step(driver.state, actions[-1], streams.world)
        driver.arrive(task.arrive(following, driver.stage))
    assert (tuple(actions), tuple(queries)) == (played.actions, played.queries)
    driver.close()
    with pytest.raises(tp.NotReached, match="is over"):
        driver.access.query(driver.access.root, 0)


def test_a_driver_counts_stages_from_where_it_begins():
    seen = []

    def act(access, rng, node):
        seen.append(node.stage)
        return 1 if len(seen) < 3 else 7

    task = problem()
    driver = Driver(task, Script(act), 3, Streams.of(0), first=2)
    driver.begin()
    for state in (4, 5):
        driver.act()
        driver.arrive(state)
    assert (driver.state, driver.stage) == (5, 4)
    with pytest.raises(tp.BadInput, match="action 7 at state 5, stage 4"):
        driver.act()
    assert seen == [0, 1, 2]


def test_a_session_is_given_the_access_of_its_planner():
    class Session:
        def begin(self, access, rng):
            assert isinstance(access, tp.GlobalAccess)
            return self

        def act(self, node):
            return 0

    class Config(Session):
        access = "global"

        def session(self):
            return Session()

    assert tp.run(problem(), Config()).episodes[0].stopped == "end"
