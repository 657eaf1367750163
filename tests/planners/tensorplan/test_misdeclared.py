"""What is declared deterministic and is not: an error that names state and action, or a bracket that is right."""

import numpy as np
import pytest

import tensorplan as tp

RUNS = 200


class Flaky:
    """Five steps of reward 1 or 0.5, declared deterministic; something happens with a small probability."""

    actions, horizon = 2, 5
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return (1.0 if action else 0.5), state + 1


class Rewards(Flaky):
    """The reward of 1 is paid with probability 0.9."""

    def step(self, state, action, rng):
        return (float(rng.random() < 0.9) if action else 0.5), state + 1


class Ends(Flaky):
    """Each step ends the episode with probability 0.03."""

    def step(self, state, action, rng):
        return (1.0 if action else 0.5), tp.END if rng.random() < 0.03 else state + 1


def problem(mdp):
    return tp.Problem(mdp, lambda state, stage: np.eye(5)[state], bound=12.0)


def outcomes(mdp, optimal, planner=None):
    """Among all runs: errors, certificates, and certified brackets that miss the truth."""
    errors, certified, wrong = [], 0, 0
    for seed in range(RUNS):
        try:
            (episode,) = tp.run(problem(mdp), planner or tp.TensorPlan(), seed=seed).episodes
        except tp.ProblemError as error:
            errors.append(error)
            continue
        except tp.NotRealizable:
            continue
        c = episode.certificate
        certified += c.status == "certified"
        wrong += c.status == "certified" and not c.lower - 1e-9 <= optimal <= c.upper + 1e-9
    return errors, certified, wrong


class Own(Flaky):
    """The reward of 1 is paid with probability 0.9, by a generator of its own."""

    def __init__(self):
        self.dice = np.random.default_rng(5)

    def step(self, state, action, rng):
        return (float(self.dice.random() < 0.9) if action else 0.5), state + 1


class Global(Flaky):
    """The same, by NumPy's global generator."""

    def step(self, state, action, rng):
        return (float(np.random.random() < 0.9) if action else 0.5), state + 1


ENDS = sum(0.97**t for t in range(5))


@pytest.mark.parametrize(
    ("mdp", "optimal", "least"),
    [(Rewards(), 4.5, 150), (Ends(), ENDS, 100), (Own(), 4.5, 40), (Global(), 4.5, 40)],
    ids=["rewards", "ends", "own", "global"],
)
def test_chance_that_was_declared_away_is_found_out(mdp, optimal, least):
    """An answer that changes is an error; where none has, by chance, random numbers were drawn: that is no proof."""
    errors, certified, _ = outcomes(mdp, optimal)
    assert certified == 0
    assert len(errors) >= least
    for error in errors:
        assert "deterministic" in str(error)
        assert error.run is not None


def test_an_answer_that_changes_is_named():
    with pytest.raises(tp.ProblemError, match=r"step\(state=\d, action=1\) at stage \d is declared to have"):
        tp.run(problem(Rewards()), tp.TensorPlan())


def test_random_numbers_that_were_drawn_are_a_warning():
    class Idle(Flaky):
        def step(self, state, action, rng):
            rng.random()
            return super().step(state, action, rng)

    with pytest.warns(UserWarning, match="the simulator draws random numbers, although"):
        (episode,) = tp.run(problem(Idle()), tp.TensorPlan()).episodes
    assert episode.certificate.status == "doubtful"
    assert episode.total_reward == 5.0


class Secret(Flaky):
    """Chance that nobody can see coming: a closure has the generator."""

    def __init__(self):
        dice = np.random.default_rng(5)
        self.draw = lambda: float(dice.random() < 0.9)

    def step(self, state, action, rng):
        return (self.draw() if action else 0.5), state + 1


def test_all_answers_of_the_path_can_be_asked_again():
    """One answer of five, and the return, is what is looked at; with recheck=1, all five twice."""
    few, many = (outcomes(Secret(), 4.5, tp.TensorPlan(recheck=share)) for share in (0.1, 1.0))
    assert few[2] < 100
    assert many[2] < 0.8 * few[2]
    assert len(many[0]) > len(few[0])


def test_what_is_deterministic_is_left_alone():
    errors, certified, wrong = outcomes(Flaky(), 5.0)
    assert (len(errors), certified, wrong) == (0, RUNS, 0)


class InPlace:
    """States are lists; ``step`` changes the one that it is given, so that the same question has another answer."""

    actions, horizon = 2, 3
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, careful):
        self.careful = careful

    def start(self, rng):
        return [0]

    def step(self, state, action, rng):
        following = list(state) if self.careful else state
        reward = 0.2 if action else 0.1
        following[0] += 1
        return reward, following


@pytest.mark.parametrize("ask", ["lazy", "all"])
def test_a_step_that_changes_its_state_is_found_out(ask):
    def task(careful):
        return tp.Problem(InPlace(careful), lambda state, stage: np.array([(3 - min(state[0], 3)) / 3, 0.0]), bound=1.0)

    (episode,) = tp.run(task(True), tp.TensorPlan(ask=ask)).episodes
    assert episode.certificate.upper == pytest.approx(0.6)
    for seed in range(20):
        with pytest.raises(tp.ProblemError):
            tp.run(task(False), tp.TensorPlan(ask=ask), seed=seed)


@pytest.mark.parametrize("planner", [tp.OCP(), tp.SpanPlanner(), tp.TensorPlanQ()], ids=repr)
def test_planners_of_action_values_look_too(planner):
    wrong = 0
    for seed in range(50):
        task = tp.Problem(Rewards(), phi_q=lambda state, stage: np.eye(10)[2 * state : 2 * state + 2], bound=20.0)
        try:
            (episode,) = tp.run(task, planner, seed=seed).episodes
        except (tp.ProblemError, tp.NotRealizable):
            continue
        c = episode.certificate
        wrong += c.status == "certified" and not c.lower - 1e-9 <= 4.5 <= c.upper + 1e-9
    assert wrong <= 5
