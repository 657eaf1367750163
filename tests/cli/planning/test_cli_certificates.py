"""What plan and compare say of certificates, of doubts about them and of warnings."""

import json
import math
import warnings


class Dark:
    """Six steps in which nothing is ever paid, although it could be."""

    horizon, actions, deterministic_transitions, deterministic_rewards = 6, 2, True, True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.0, state + action


class Broken(Dark):
    """The third answer and those after it are nonsense."""

    answers = 0

    def step(self, state, action, rng):
        self.answers += 1
        return (0.5 if self.answers < 3 else math.nan), state + action


def named(monkeypatch, mdp):
    """Let every name stand for that MDP, with features that know the time."""
    import tensorplan as tp
    from tensorplan.problems import catalog

    def phi(state, stage):
        return [(6 - stage) / 12, state / 12]

    problem = tp.Problem(mdp, phi_v=phi, bound=20.0, name="mine")
    monkeypatch.setattr(catalog, "instance", lambda name, seed: problem)


CERTIFICATE = {"upper", "lower", "status", "failure", "lower_failure", "assumes", "explained", "warnings", "discount"}
CERTIFICATE |= {"notes", "upper_anyway", "anyway_failure"}
ROW = {"upper", "lower", "gap", "certificate", "failure", "lower_failure", "assumes", "explained", "warnings"}


def test_rows_have_all_of_a_certificate_but_its_proof(cli):
    _, out, _ = cli("plan", "hanoi/3", "--json")
    (episode,) = json.loads(out)["episodes"]
    assert set(episode["certificate"]) == CERTIFICATE
    assert "proof" not in out
    _, out, _ = cli("compare", "hanoi/3", "--planners", "tensorplan,random", "--seeds", "1", "--json")
    mine, theirs = json.loads(out)["rows"]
    assert set(mine) >= ROW
    assert (mine["certificate"], mine["warnings"]) == ("certified", None)
    assert mine["assumes"] == episode["certificate"]["assumes"]
    assert (theirs["certificate"], theirs["assumes"], theirs["upper"]) == (None, None, None)


def test_confidences_are_told_apart(cli):
    _, out, _ = cli("plan", "layered-stochastic/2x3", "--delta", "1.5")
    assert ", at confidence 0.95, if v*(s) = " in out
    assert "; the lower bound holds at confidence 0.975, whatever the features, the upper one at 0.975" in out
    _, out, _ = cli("plan", "layered-stochastic/2x3", "--delta", "1.5", "--episodes", "2")
    assert "certified, 2 episodes: each v*(s0) is in its bracket, at confidence 0.95, if v*(s) = " in out
    assert "the largest gap is 0." in out


def test_what_eta_explains_is_told(cli):
    code, out, _ = cli("plan", "layered/3x6:eta=0.05", "--planner", "tensorplan:eta=0.05")
    assert code == 0
    assert "is within 0.05 of <phi_v(s), theta>" in out
    assert ", of which eta explains " in out


def test_warnings_are_one_line_each_on_stderr(cli, monkeypatch):
    named(monkeypatch, Dark())
    code, out, err = cli("plan", "mine")
    assert code == 0
    said = "problem 'mine', status 'doubtful': no reward other than zero was ever seen"
    assert err == f"tensorplan: warning: {said}\n"
    assert "doubtful: v*(s0) is in [0, " in out
    assert "; the gap has closed, but there is reason to think that this proves little\n" in out
    assert "doubt: no reward other than zero was ever seen\n" in out
    monkeypatch.undo()
    named(monkeypatch, Dark())
    code, out, err = cli("plan", "mine", "--json")
    assert (code, err) == (0, f"tensorplan: warning: {said}\n")
    certificate = json.loads(out)["episodes"][0]["certificate"]
    assert (certificate["status"], certificate["warnings"]) == (
        "doubtful",
        ["no reward other than zero was ever seen"],
    )


def test_foreign_warnings_are_one_line_each_as_well(cli, monkeypatch):
    class Loud(Dark):
        def step(self, state, action, rng):
            warnings.warn("one\n  two", DeprecationWarning, stacklevel=1)
            warnings.warn("one\n  two", RuntimeWarning, stacklevel=1)
            return super().step(state, action, rng)

    named(monkeypatch, Loud())
    _, _, err = cli("plan", "mine", "--planner", "random")
    assert "tensorplan: warning: one two\n" in err
    assert ".py" not in err


def test_an_error_leaves_the_bracket_that_was_reached(cli, monkeypatch):
    named(monkeypatch, Broken())
    code, out, err = cli("plan", "mine", "--json")
    assert code == 2
    (episode,) = json.loads(out)["episodes"]
    assert (episode["stopped"], episode["certificate"]["status"]) == ("failed", "failed")
    assert "gave the reward nan" in err.splitlines()[-1]
    named(monkeypatch, Broken())
    code, out, _ = cli("plan", "mine", "--delta", "0.1")
    assert code == 2
    assert "failed: v*(s0) is in [0.5, " in out
    assert "an error ended the planning" in out
