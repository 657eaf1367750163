"""The command plan: episodes, traces, verdicts, and what it says of problems that are hard to plan in."""

import json

import pytest
from clocks import set_clock

from tensorplan.planners.tensorplan.sol import Sol


def test_plan_shows_63_steps(cli):
    code, out, err = cli("plan", "hanoi/6", "--planner", "oracle", "--json")
    assert code == 0
    assert err == ""
    data = json.loads(out)
    (episode,) = data["episodes"]
    assert episode["steps"] == 63
    assert episode["total_reward"] == episode["optimal"] == -63
    assert len(episode["actions"]) == 63
    code, out, _ = cli("plan", "hanoi/6", "--planner", "oracle")
    assert " 63 " in out


def test_plan_uses_tensorplan_and_shows_its_certificate(cli):
    code, out, _ = cli("plan", "hanoi/8")
    assert code == 0
    assert "TensorPlan()" in out
    assert "certified: v*(s0) is in [-255, -255], if v*(s) = <phi_v(s), theta> at all states" in out
    assert "the policy earns at least -255 in any case\ngap " in out
    _, out, _ = cli("plan", "hanoi/8", "--json")
    (episode,) = json.loads(out)["episodes"]
    assert episode["steps"] == 255
    assert episode["total_queries"] <= 800
    assert episode["certificate"]["status"] == "certified"
    assert abs(episode["gap"]) < 1e-3


POLE = "gym/CartPole-v1:features=linear:bound=9:horizon=40"


def test_v_star_is_not_looked_for_at_any_price(cli):
    pytest.importorskip("gymnasium")
    code, out, err = cli("plan", POLE, "--planner", "random", "--json")
    data = json.loads(out)
    assert (code, data["episodes"][0]["regret"]) == (0, None)
    assert 1_000 < data["unmetered"] < 25_000
    assert err.startswith("tensorplan: there is no regret: v* of problem 'gym/CartPole-v1")
    assert err.count("\n") == 1
    _, out, _ = cli("plan", POLE, "--planner", "random")
    assert "steps of the simulator outside of the meter: " in out
    code, out, err = cli("compare", POLE, "--planners", "random", "--seeds", "3", "--json")
    assert code == 0
    assert {row["regret"] for row in json.loads(out)["rows"]} == {None}
    assert err.endswith("within 20,000 steps and 2 s (and so for 2 more instances)\n")
    assert err.count("\n") == 1


def test_plan_passes_delta_on(cli):
    _, out, _ = cli("plan", "layered-stochastic/2x3", "--delta", "1.5", "--json")
    data = json.loads(out)
    assert data["planner"] == "TensorPlan(delta=1.5)"
    assert data["episodes"][0]["gap"] <= 0.75
    assert data["episodes"][0]["certificate"]["failure"] == 0.05


def test_a_trace_goes_to_a_file(cli, tmp_path):
    path = tmp_path / "trace.json"
    code, *_ = cli("plan", "hanoi/3", "--trace", str(path))
    assert code == 0
    (trace,) = json.loads(path.read_text())["episodes"]
    assert trace["mode"] == "exact"
    assert [i["number"] for i in trace["iterations"]] == list(range(1, len(trace["iterations"]) + 1))
    assert trace["iterations"][-1]["upper"] == pytest.approx(-7, abs=1e-6)
    assert (trace["certificate"]["status"], trace["certificate"]["warnings"]) == ("certified", [])
    assert "proof" not in trace["certificate"]
    code, _, err = cli("plan", "hanoi/3", "--planner", "uct", "--trace", str(path))
    assert code == 2
    assert "keeps no trace" in err


def test_a_refutation_is_one_sentence_below_what_was_found(cli):
    code, out, err = cli("plan", "layered/3x6:eta=0.3")
    assert code == 2
    assert "refuted: the features do not realize the values as declared" in out
    assert len(err.splitlines()) == 1
    assert "is not realizable with B=" in err
    assert "is needed; tp.Hindsight (--planner hindsight) plans with any features" in err
    code, out, _ = cli("compare", "layered/3x6:eta=0.3", "--planners", "tensorplan,random", "--seeds", "2", "--json")
    assert code == 0
    assert len(json.loads(out)["rows"]) == 4


def test_the_printed_algorithm_says_what_it_may_need(cli):
    code, out, err = cli("plan", "layered-stochastic/2x3", "--planner", "tensorplan:mode=paper", "--delta", "0.5")
    assert code == 2
    assert out == ""
    first, second = err.splitlines()
    assert first == "tensorplan: TensorPlan as printed may need 5.33e+22 queries"
    assert second.startswith(first)


def test_plan_judges(cli):
    _, out, _ = cli("plan", "hanoi/3", "--planner", "oracle", "--delta", "0.1")
    assert "sound: loss 0 in [0, 0]" in out
    arguments = ("plan", "layered-stochastic/2x3", "--planner", "uct:simulations=20", "--episodes", "3")
    _, out, _ = cli(*arguments, "--delta", "0.1", "--json")
    soundness = json.loads(out)["soundness"]
    assert soundness["verdict"] == "undecided"
    assert soundness["loss"]["low"] < soundness["loss"]["mean"] < soundness["loss"]["high"]


def test_seeds_reproduce(cli):
    def rows(seed):
        _, out, _ = cli("plan", "layered-stochastic/2x3", "--planner", "random", "--seed", seed, "--json")
        return [(e["actions"], e["rewards"]) for e in json.loads(out)["episodes"]]

    assert rows("3") == rows("3") != rows("4")


def test_a_time_limit_ends_planning(cli, monkeypatch):
    set_clock(monkeypatch, 1e-3)
    code, out, _ = cli("plan", "layered-stochastic/2x3", "--planner", "tensorplan:delta=0.001", "--time-limit", "1")
    assert code == 0
    assert "time: v*(s0) is in [" in out
    assert "; the time limit was reached" in out
    code, out, _ = cli("plan", "layered/9x20:kind=q:horizon=20", "--planner", "ocp", "--time-limit", "0.1", "--json")
    (episode,) = json.loads(out)["episodes"]
    assert (code, episode["certificate"]["status"], episode["stopped"]) == (0, "time", "end")
    assert episode["certificate"]["lower"] <= episode["optimal"] <= episode["certificate"]["upper"]


def test_the_proof_of_a_large_search_is_not_written_after_the_deadline(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(Sol, "provable", False)
    code, _, err = cli("plan", "layered/2x3", "--proof", str(tmp_path / "proof.json"), "--time-limit", "100")
    assert code == 2
    assert "no proof was written: there was no time to write it" in err
    assert not list(tmp_path.iterdir())
