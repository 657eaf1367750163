import dataclasses
import json
import math
import os
import random
import re
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from inline import Inline


def test_list_names_problems_and_planners(cli):
    code, out, _ = cli("list")
    assert code == 0
    for name in ("hanoi/6", "layered/4x10", "uct", "sparse-sampling", "oracle", "random"):
        assert name in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli("list", "--json")
    names = json.loads(out)
    assert {"hanoi", "chinese-rings", "grid", "layered"} <= {p["name"] for p in names["problems"]}
    assert {"uct", "oracle"} <= {p["name"] for p in names["planners"]}


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
    assert "refuted: v*(s0) is in" in out
    assert len(err.splitlines()) == 1
    assert "is not realizable with B=" in err
    assert "is needed" in err
    code, out, _ = cli("compare", "layered/3x6:eta=0.3", "--planners", "tensorplan,random", "--seeds", "2", "--json")
    assert code == 0
    assert len(json.loads(out)["rows"]) == 4


def test_compare_counts_queries_in_units_of_the_first_planner(cli):
    code, out, _ = cli("compare", "layered/3x4:states=30", "--seeds", "2")
    assert code == 0
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["tensorplan"][-3] == "1"
    assert float(lines["uct"][-3].replace(",", "")) > 10


def test_constants_beside_what_the_modes_need(cli):
    arguments = ("constants", "--A", "2", "--d", "3", "--H", "5", "--delta", "0.5", "--B", "1")
    code, out, _ = cli(*arguments)
    assert code == 0
    for text in ("2,189", "13,111", "38,739,380", "7.96e+18", "3.49e+22", "exact", "certified"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = cli(*arguments, "--json")
    data = json.loads(out)
    assert data["constants"]["E_d"] == 2189
    assert data["constants"]["n1"] == 13111
    exact, *certified = data["measured"]
    assert exact["queries"] < 100
    assert all(need["queries"] < 10**6 and need["gap"] <= 0.25 for need in certified)
    code, _, err = cli("constants", "--A", "2", "--d", "3", "--H", "5", "--delta", "-1", "--B", "1")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_the_printed_algorithm_says_what_it_may_need(cli):
    code, out, err = cli("plan", "layered-stochastic/2x3", "--planner", "tensorplan:mode=paper", "--delta", "0.5")
    assert code == 2
    assert out == ""
    first, second = err.splitlines()
    assert first == "tensorplan: TensorPlan as printed may need 5.33e+22 queries"
    assert second.startswith(first)


def test_verify_checks_the_hard_problems(cli):
    code, out, _ = cli("verify", "hard/2x3")
    assert code == 0
    assert "hard/2x3: passed (exhaustive, exact fractions; 27 states" in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli("verify", "hard/3x1", "--json")
    assert (code, json.loads(out)["passed"]) == (0, True)
    code, _, err = cli("verify", "hanoi/3")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_hardness_measures_the_price_of_a_guess(cli, tmp_path):
    arguments = ("hardness", "--p", "8:16:4", "--seeds", "3", "--plot", str(tmp_path / "cost.png"))
    code, out, _ = cli(*arguments)
    assert code == 0
    assert "vacuous" in out
    assert "doubles" in out
    assert max(len(line) for line in out.splitlines() if "doubles" not in line) <= 80
    assert (tmp_path / "cost.png").exists()
    _, out, _ = cli(*arguments, "--json")
    data = json.loads(out)
    assert [row["p"] for row in data["costs"]] == [8, 8, 12, 12, 16, 16]
    assert all(row["vacuous"] for row in data["costs"])
    assert {row["planner"] for row in data["planners"]} == {"tensorplan", "uct"}
    code, _, err = cli("hardness", "--p", "x")
    assert (code, len(err.splitlines())) == (2, 1)


def test_plan_judges(cli):
    _, out, _ = cli("plan", "hanoi/3", "--planner", "oracle", "--delta", "0.1")
    assert "sound: loss 0 in [0, 0]" in out
    arguments = ("plan", "layered-stochastic/2x3", "--planner", "uct:simulations=20", "--episodes", "3")
    _, out, _ = cli(*arguments, "--delta", "0.1", "--json")
    soundness = json.loads(out)["soundness"]
    assert soundness["verdict"] == "undecided"
    assert soundness["loss"]["low"] < soundness["loss"]["mean"] < soundness["loss"]["high"]


def test_compare_prints_its_table(cli):
    arguments = ("compare", "layered/4x10:states=20:horizon=4", "--planners", "uct:simulations=20,random,oracle")
    code, out, _ = cli(*arguments, "--seeds", "3")
    assert code == 0
    assert "±" in out
    assert out.splitlines()[4].split()[0] == "oracle"  # the best regret comes first
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli(*arguments, "--seeds", "3", "--json")
    data = json.loads(out)
    assert len(data["rows"]) == 9
    assert data["summary"][2]["regret"]["mean"] == pytest.approx(0, abs=1e-12)


def test_seeds_reproduce(cli):
    def rows(seed):
        _, out, _ = cli("plan", "layered-stochastic/2x3", "--planner", "random", "--seed", seed, "--json")
        return [(e["actions"], e["rewards"]) for e in json.loads(out)["episodes"]]

    assert rows("3") == rows("3") != rows("4")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", "hanoj/6"], "unknown problem 'hanoj'; did you mean 'hanoi'?"),
        (["plan", "hanoi/0"], "disks must be a whole number from 1 to 40, got 0"),
        (["plan", "hanoi/3", "--planner", "utc"], "unknown planner 'utc'; did you mean 'uct'?"),
        (["compare", "hanoi/3", "--planners", ","], "name at least one planner"),
        (["compare", "hanoi/3", "--planners", "sparse-sampling"], "sparse sampling needs a horizon or a depth"),
        (["plan", "hanoi/3", "--episodes", "0"], "0 is not in the range x>=1"),
        (["plan"], "Missing argument 'PROBLEM' (see tensorplan plan --help)"),
        (["plam"], "No such command 'plam'"),
        (["plan", "hanoi/3", "--color"], "--color"),
        (["plan", "layered/2x3", "--delta", "0"], "delta must be positive, got 0.0"),
        (["plan", "layered/2x3", "--delta", "99"], "so every policy is that good"),
        (["plan", "layered-stochastic/2x3", "--planner", "tensorplan:mode=exact"], "mode 'exact' is for deterministic"),
        (["plan", "layered/2x3:kind=q"], "has no phi_v, which TensorPlan needs; TensorPlanQ plans with phi_q"),
        (["plan", "layered/2x3", "--planner", "tensorplan:mode=fast"], "mode must be one of auto, exact, certified"),
        (["plan", "gym/Taxi-v4:features=realizing5:name=x"], "'gym' has no parameter 'name'"),
        (["plan", "hanoi/3:disks=4"], "'disks' is given twice, behind the slash and behind the colon"),
        (["plan", "hanoi/3", "--planner", "uct:depth=3:depth=4"], "'depth' is given twice"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(cli, arguments, sentence):
    code, out, err = cli(*arguments)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_what_was_done_before_an_error_is_printed(cli):
    code, out, err = cli("compare", "hanoi/3", "--planners", "oracle,sparse-sampling", "--seeds", "2")
    assert code == 2
    assert "oracle" in out
    assert len(err.splitlines()) == 1


SIGNALLED = """
import os, signal, sys
from tensorplan.{module} import {owner}
real, calls = {owner}.{name}, iter(range(10**9))
def counted(*arguments, **options):
    if next(calls) == {number}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*arguments, **options)
{owner}.{name} = counted
from tensorplan.cli.main import main
main(sys.argv[1:])
"""
"""A command whose process gets a real SIGINT at some call of a function."""


def signalled(*arguments, **where):
    return subprocess.run(
        [sys.executable, "-c", SIGNALLED.format(**where), *arguments], capture_output=True, text=True, timeout=120
    )


def test_ctrl_c_prints_the_table_so_far():
    arguments = ["compare", "hanoi/4", "--planners", "oracle,uct:simulations=200", "--seeds", "500", "--json"]
    done = signalled(*arguments, module="evaluation", owner="compare", name="run_unit", number=5)
    assert done.returncode == 1
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    result = json.loads(done.stdout)
    assert (result["stopped"], len(result["rows"])) == ("interrupted", 5)


def test_ctrl_c_leaves_a_bracket():
    arguments = ["plan", "layered-stochastic/3x8:horizon=10", "--delta", "0.02", "--json"]
    done = signalled(*arguments, module="access.local", owner="LocalAccess", name="sample_all", number=200)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (episode,) = json.loads(done.stdout)["episodes"]
    certificate = episode["certificate"]
    assert certificate["status"] == "interrupted"
    assert certificate["lower"] <= episode["optimal"] <= certificate["upper"] <= 10
    assert episode["stopped"] == "end"


# ------------------------------------------------------------------------------------------------ files to write to

OUTPUTS = [
    (["plan", "no-such-problem", "--trace"], "x.json"),
    (["plan", "no-such-problem", "--proof"], "x.json"),
    (["hardness", "--p", "no such size", "--plot"], "x.png"),
    (["table1", "--rows", "no such row", "--plot"], "x.png"),
    (["trace", "no-such-problem", "--out"], "x.html"),
    (["sweep", "no-such-file.yaml", "--out", "folder", "--export"], "x.csv"),
    (["report", "no-such-folder", "--out"], "x.html"),
]
"""Each would complain of something else, if it did not look at the file first."""


@pytest.mark.parametrize(("command", "name"), OUTPUTS)
def test_files_that_cannot_be_written_are_known_before_the_work(cli, tmp_path, command, name):
    (tmp_path / name).mkdir()
    for path, why in ((tmp_path / "nowhere" / name, "its folder does not exist"), (tmp_path / name, "it is a folder")):
        code, out, err = cli(*command, str(path))
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert f"cannot write to '{path}': {why}" in err
    code, _, err = cli(*command, str(tmp_path / f"fine-{name}"))
    assert (code, "cannot write" in err) == (2, False)
    assert not (tmp_path / f"fine-{name}").exists()


@pytest.mark.parametrize(
    ("command", "path", "sentence"),
    [
        (["hardness", "--plot"], "x.xyz", "the name must end in one of png, svg, pdf"),
        (["table1", "--plot"], "picture", "the name must end in one of png, svg, pdf"),
        (["sweep", "no-such-file.yaml", "--out", "folder", "--export"], "x.xls", "must end in .csv or .parquet"),
        (["table1", "--out"], "/dev/null", "cannot use '/dev/null'"),
    ],
)
def test_files_of_a_wrong_kind_are_known_before_the_work(cli, command, path, sentence):
    code, out, err = cli(*command, path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err


def test_devices_are_not_replaced(cli, tmp_path):
    link = tmp_path / "null.html"
    link.symlink_to("/dev/null")
    for arguments in (
        ("trace", "hanoi/2", "--out", str(link)),
        ("plan", "hanoi/2", "--trace", str(link), "--proof", str(link)),
    ):
        assert cli(*arguments)[0] == 0
    assert link.is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_that_fails_in_the_end_costs_no_results(cli, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    code, out, err = cli("plan", "hanoi/2", "--trace", str(tmp_path / "x.json"), "--json")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "No space left on device" in err
    assert json.loads(out)["episodes"][0]["steps"] == 3


# ------------------------------------------------------------------------------------------------ proofs


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    """Files with a proof of exact and of certified mode, and of a refutation."""
    import tensorplan as tp

    def saved(problem, planner):
        path = folder / f"{problem.name.replace('/', '-')}.json"
        try:
            played = tp.run(problem, planner)
        except tp.NotRealizable as error:
            played = error.run
        played.episodes[0].certificate.proof.save(path)
        return path

    folder = tmp_path_factory.mktemp("proofs")
    exact = saved(tp.make("hanoi/3"), tp.TensorPlan())
    certified = saved(tp.make("layered-stochastic/2x3"), tp.TensorPlan(delta=1.5))
    refuted = saved(tp.make("layered", actions=3, d=6, eta=0.3), tp.TensorPlan())
    return {"exact": exact, "certified": certified, "refuted": refuted}


def test_a_proof_goes_to_a_file_and_is_checked(cli, tmp_path):
    path = tmp_path / "proof.json"
    code, out, err = cli("plan", "hanoi/4", "--proof", str(path), "--episodes", "2", "--json")
    assert (code, err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["proof.json"]
    claimed = json.loads(out)["episodes"][0]["certificate"]
    code, out, err = cli("check", str(path))
    assert (code, err) == (0, "")
    counts, bracket, assumption, earned = out.splitlines()
    assert counts.startswith("hanoi/4, exact mode: states ")
    assert ", answers " in counts
    assert bracket == "proved, for certain: v*(s0) is in [-15, -15], gap 0"
    assert assumption == f"the upper end assumes that {claimed['assumes']}"
    assert earned == "a policy earns at least -15, whatever the features"
    code, out, err = cli("check", str(path), "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["file"], data["problem"], data["lower"], data["refuted"]) == (str(path), "hanoi/4", -15, False)
    assert data["upper"] == pytest.approx(claimed["upper"])
    assert {"states", "answers", "rows", "disjunctions", "leaves", "gap", "failure", "sentence"} < set(data)


def test_proofs_of_random_problems_and_of_refutations_are_checked(cli, proofs):
    code, out, _ = cli("check", str(proofs["certified"]))
    assert code == 0
    assert ", measurements " in out
    assert "proved, at confidence 0.95: v*(s0) is in [" in out
    code, out, _ = cli("check", str(proofs["refuted"]))
    assert code == 0
    assert "refuted, for certain: a policy earns at least " in out
    assert "it is not true that v*(s) " in out


def test_a_refutation_comes_with_its_proof(cli, tmp_path):
    path = tmp_path / "proof.json"
    code, out, err = cli("plan", "layered/3x6:eta=0.3", "--proof", str(path))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "refuted: v*(s0) is in" in out
    code, out, _ = cli("check", str(path))
    assert (code, "refuted, for certain" in out) == (0, True)


@pytest.mark.parametrize("planner", ["uct", "ocp", "oracle", "tensorplan:mode=paper"])
def test_planners_without_proofs_are_known_before_the_work(cli, tmp_path, planner):
    code, out, err = cli("plan", "hanoi/3", "--planner", planner, "--proof", str(tmp_path / "proof.json"))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "gives no proofs: TensorPlan does, in the modes exact and certified" in err
    assert not list(tmp_path.iterdir())


def test_bounds_that_are_infinite_or_rest_on_nothing_have_a_proof_too(cli, tmp_path):
    path = tmp_path / "proof.json"
    for problem, budget in (("hanoi/5", "20"), ("layered-stochastic/2x3", "10")):
        code, out, err = cli("plan", problem, "--budget", budget, "--proof", str(path), "--json")
        assert (code, err) == (0, "")
        claimed = json.loads(out)["episodes"][0]["certificate"]
        code, out, err = cli("check", str(path), "--json")
        assert (code, err) == (0, "")
        checked = json.loads(out)
        assert {name: checked[name] for name in ("lower", "assumes")} == {
            name: claimed[name] for name in ("lower", "assumes")
        }
        assert cli("check", str(path))[0] == 0


def test_a_proof_that_fails_to_be_written_costs_no_results(cli, tmp_path, monkeypatch):
    from tensorplan.proofs import Proof

    def full(proof, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Proof, "save", full)
    code, out, err = cli("plan", "hanoi/2", "--proof", str(tmp_path / "x.json"), "--json")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "No space left on device" in err
    assert json.loads(out)["episodes"][0]["steps"] == 3
    assert not list(tmp_path.iterdir())


def refused(cli, path):
    """The sentence with which a file is refused."""
    code, out, err = cli("check", str(path))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("tensorplan: ")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("kind", ["exact", "certified", "refuted"])
def test_a_changed_byte_is_noticed(cli, proofs, tmp_path, kind):
    whole, spoiled = proofs[kind].read_bytes(), tmp_path / "spoiled.json"
    digits = [m.start() for m in re.finditer(rb"(?<=[\d.])\d", whole)]
    for at in random.Random(kind).sample(digits, 12):
        other = b"7" if whole[at : at + 1] != b"7" else b"3"
        spoiled.write_bytes(whole[:at] + other + whole[at + 1 :])
        refused(cli, spoiled)
    for text in (b"", b"{}", b"[1, 2]", whole[:-1], whole[: len(whole) // 2], b"\xff\xfe" + whole):
        spoiled.write_bytes(text)
        assert "spoiled.json" in refused(cli, spoiled)
    assert "No such file" in refused(cli, tmp_path / "missing.json")
    refused(cli, tmp_path)


def changed(path, change, to):
    """The proof with a change, as somebody would write it who knows how the digest is made."""
    from tensorplan.proofs import Proof

    proof = Proof.load(path)
    change(proof.data)
    proof.save(to)
    return to


CHANGES = {
    "a better upper bound": ("exact", lambda data: data["claim"].update(upper=data["claim"]["upper"] - 0.1)),
    "a better lower bound": ("exact", lambda data: data["claim"].update(lower=data["claim"]["lower"] + 0.1)),
    "a reward out of range": ("exact", lambda data: data["answers"][0].__setitem__(2, -2.0)),
    "another feature": ("exact", lambda data: data["states"][0]["phi"].__setitem__(0, 0.123)),
    "a shorter path": ("exact", lambda data: data["returns"]["answers"].pop(0)),
    "another status": ("exact", lambda data: data["claim"].update(status="refuted")),
    "an unknown mode": ("exact", lambda data: data.update(mode="believed")),
    "no tree": ("exact", lambda data: data.pop("tree")),
    "a smaller radius": ("certified", lambda data: data["measurements"][0]["radii"].__setitem__(0, 1e-6)),
    "more samples": ("certified", lambda data: data["returns"]["values"].__setitem__(0, [0.0, 10**6])),
    "a better bound": ("certified", lambda data: data["claim"].update(upper=data["claim"]["lower"])),
    "less doubt": ("certified", lambda data: data.update(zeta=1e-12)),
    "no refutation": ("refuted", lambda data: data["claim"].update(status="certified")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_number_is_noticed_with_the_right_digest_too(cli, proofs, tmp_path, what):
    kind, change = CHANGES[what]
    refused(cli, changed(proofs[kind], change, tmp_path / "spoiled.json"))


def test_ctrl_c_ends_a_check(cli, proofs, monkeypatch):
    import tensorplan.proofs

    monkeypatch.setattr(tensorplan.proofs, "check", interrupting(tensorplan.proofs.check, 1))
    code, out, err = cli("check", str(proofs["exact"]))
    assert (code, out, "interrupted" in err) == (1, "", True)


# ------------------------------------------------------------------------------------------------ certificates


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


# ------------------------------------------------------------------------------------------------ Ctrl-C


def cut_short(played):
    """The run as Ctrl-C would have left it: while it planned, for those that give certificates."""
    *before, last = played.episodes
    if last.certificate is None:
        last = dataclasses.replace(last, stopped="interrupted")
    else:
        certificate = dataclasses.replace(last.certificate, status="interrupted")
        last = dataclasses.replace(last, certificate=certificate)
    return dataclasses.replace(played, episodes=(*before, last))


def interrupting(real, at):
    """``real``, whose call with that number is interrupted."""
    calls = []

    def wrapped(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    return wrapped


def interrupted_run(real, at):
    """``tensorplan.run``, which hears of Ctrl-C in the call with that number and returns what it has."""
    calls = []

    def wrapped(*arguments, **options):
        calls.append(arguments)
        played = real(*arguments, **options)
        return cut_short(played) if len(calls) == at else played

    return wrapped


CONSTANTS = ("constants", "--A", "2", "--d", "3", "--H", "5", "--delta", "0.5", "--B", "1")


@pytest.mark.parametrize("interrupt", [interrupting, interrupted_run])
def test_ctrl_c_leaves_the_constants_that_are_measured(cli, monkeypatch, interrupt):
    from tensorplan.evaluation import runner

    monkeypatch.setattr(runner, "run", interrupt(runner.run, 2))
    code, out, err = cli(*CONSTANTS)
    assert code == 1
    assert "interrupted" in err
    assert "not measured: certified mode, random rewards; certified mode, random steps and rewards" in out
    monkeypatch.undo()
    monkeypatch.setattr(runner, "run", interrupt(runner.run, 2))
    code, out, _ = cli(*CONSTANTS, "--json")
    data = json.loads(out)
    assert (code, len(data["not_measured"])) == (1, 2)
    assert [record["mode"] for record in data["measured"]] == ["exact"]


@pytest.fixture
def ctrl_c(monkeypatch):
    """Experiments run in this process, and Ctrl-C is pressed at the unit with that number."""
    from tensorplan.sweeps import sweep

    def press(at):
        monkeypatch.setattr(sweep, "LocalEngine", lambda *limits, **more: Inline(interrupt=at))

    return press


def test_ctrl_c_leaves_the_hardness_that_is_measured(cli, ctrl_c, tmp_path):
    folder, picture = tmp_path / "out", tmp_path / "x.png"
    arguments = ("hardness", "--p", "8:12:4", "--seeds", "2", "--plot", str(picture), "--out", str(folder))
    ctrl_c(1)
    code, out, _ = cli(*arguments)
    assert (code, out.startswith("not measured: uniform at p = 8")) == (1, True)
    ctrl_c(5)
    code, out, err = cli(*arguments)
    assert code == 1
    assert "interrupted" in err
    assert "not measured: uniform at p = 12; best at p = 12; tensorplan on hard/2x9" in out
    assert "Planners on" not in out
    assert picture.exists()
    ctrl_c(6)  # four games are left: the second run of a planner
    code, out, _ = cli(*arguments, "--json")
    data = json.loads(out)
    assert (code, len(data["costs"]), len(data["planners"])) == (1, 4, 1)
    assert data["not_measured"][0] == "tensorplan on hard/3x9"


def test_ctrl_c_before_the_first_query(cli, monkeypatch):
    from tensorplan.planners.baselines.uct import UCT

    for arguments in (("plan", "hanoi/3", "--planner", "uct"), ("compare", "hanoi/3", "--planners", "uct")):
        monkeypatch.setattr(UCT, "begin", interrupting(UCT.begin, 1))
        code, out, err = cli(*arguments)
        assert (code, out, "interrupted" in err) == (1, "", True)


def test_ctrl_c_between_two_runs_keeps_the_comparison(cli, monkeypatch):
    from tensorplan.problems import catalog

    monkeypatch.setattr(catalog, "instance", interrupting(catalog.instance, 2))
    code, out, err = cli("compare", "hanoi/3", "--planners", "oracle", "--seeds", "3", "--json")
    assert (code, "interrupted" in err) == (1, True)
    assert len(json.loads(out)["rows"]) == 1


def test_ctrl_c_leaves_the_table1_that_is_measured(cli, ctrl_c, tmp_path):
    from tensorplan.sweeps.store import Store

    ctrl_c(3)
    code, _, err = cli("table1", "--quick", "--rows", "1", "--out", str(tmp_path))
    assert (code, "interrupted" in err) == (1, True)
    with Store.open(tmp_path) as store:
        assert (store.kind, store.count()) == ("table1", 2)


# ------------------------------------------------------------------------------------------------ terminals


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["compare", "layered/2x3:states=10", "--seeds", "2", "--planners", "tensorplan,uct:simulations=20"],
        [*CONSTANTS],
        ["verify", "hard/2x3"],
        ["diagnose", "hanoi/3"],
        ["table1", "--quick", "--rows", "4", "--workers", "1"],
    ],
)
def test_narrow_terminals(cli, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = cli(*arguments)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 40
    assert "…" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "there"),
    [
        (["compare", "hanoi/3", "--seeds", "2", "--planners", "oracle,random"], 0, "mean per episode +- half-width"),
        (["plan", "hanöi/3"], 2, "unknown problem 'han\\xf6i'"),
        (["plan", "layered/3x6:eta=0.3"], 2, "eta"),
    ],
)
def test_terminals_that_know_ascii_alone(arguments, code, there):
    poor = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    done = subprocess.run([sys.executable, "-m", "tensorplan", *arguments], capture_output=True, env=poor, check=False)
    assert done.returncode == code
    said = (done.stdout + done.stderr).decode("ascii")
    assert there in said
    assert "Traceback" not in said


def test_help_and_version(cli):
    code, out, _ = cli("--help")
    assert code == 0
    assert "compare" in out
    code, out, _ = cli("--version")
    assert (code, out.split()[0]) == (0, "tensorplan,")


def test_table1_prints_verdicts_from_measurements(cli, tmp_path):
    book, picture = tmp_path / "book", tmp_path / "table.png"
    code, out, err = cli(
        "table1", "--quick", "--rows", "4", "--workers", "1", "--out", str(book), "--plot", str(picture)
    )
    assert (code, err) == (0, "")
    assert "✗ (✗)" in out
    assert "evidence" in out
    assert max(map(len, out.splitlines())) <= 80
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, out, _ = cli("table1", "--quick", "--rows", "4", "--out", str(book), "--json")
    data = json.loads(out)
    assert code == 0
    assert data["agrees"] is True
    (row,) = data["rows"]
    assert (row["row"], row["verdict"], row["planner"]) == (4, False, "root-search")
    (family,) = row["families"]
    (planner,) = family["planners"]
    assert planner["sound"]
    assert planner["growth"]["verdict"] == "exponential"
    assert all(family["forced"][str(at["size"])] < at["queries"]["mean"] for at in planner["at"])


def test_table1_is_told_of_rows_that_do_not_exist(cli, tmp_path):
    for rows in ("11", "0", "one", "1,,2"):
        code, out, err = cli("table1", "--rows", rows)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
    diary = tmp_path / "diary"
    diary.write_text("dear diary\n")
    code, _, err = cli("table1", "--quick", "--rows", "4", "--out", str(diary))
    assert code == 2
    assert "is a file" in err
    code, _, err = cli("hardness", "--p", "8", "--seeds", "1", "--out", str(tmp_path / "hard"))
    assert code == 0
    code, out, err = cli("table1", "--quick", "--rows", "4", "--out", str(tmp_path / "hard"))
    assert (code, out) == (2, "")
    assert err.endswith("holds the results of 'hardness', not of 'table1': choose another folder\n")


def test_the_list_does_not_load_the_compiler():
    program = "import sys; from tensorplan.cli.main import app; app(['list'], standalone_mode=False); "
    program += "sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


SUITE = """problems: [hanoi/3, "layered/2x3:states=10"]
planners: [tensorplan, random]
seeds: 2
"""


def test_a_sweep_its_report_and_a_trace(cli, tmp_path):
    file, out = tmp_path / "suite.yaml", tmp_path / "out"
    file.write_text(SUITE)
    code, text, err = cli(
        "sweep", str(file), "--out", str(out), "--workers", "1", "--export", str(tmp_path / "rows.csv")
    )
    assert (code, err) == (0, "")
    assert "8 runs" in text
    assert max(map(len, text.splitlines())) <= 80
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 9
    code, _, err = cli("sweep", str(file), "--out", str(out))
    assert code == 2
    assert "--resume" in err
    code, text, _ = cli("sweep", str(file), "--out", str(out), "--resume", "--json")
    assert code == 0
    assert len(json.loads(text)["rows"]) == 8
    code, text, _ = cli("report", str(out))
    assert code == 0
    page = out / "report.html"
    assert text.strip() == str(page)
    assert "layered/2x3:states=10" in page.read_text()
    code, text, _ = cli("report", str(out), "--json")
    assert {s["planner"] for s in json.loads(text)["standings"]} == {"tensorplan", "random"}


def test_a_trace_becomes_a_page(cli, tmp_path):
    page = tmp_path / "trace.html"
    code, out, err = cli("trace", "hanoi/3", "--out", str(page), "--json")
    assert code == 0
    told = json.loads(out)["trace"]
    assert (told["mode"], told["certificate"]["lower"]) == ("exact", -7)
    assert page.resolve().as_uri() in err
    assert "hanoi/3" in page.read_text()
    assert "the policy earns at least -7 in any case" in page.read_text()


def test_sweeps_reports_and_traces_say_what_is_wrong(cli, tmp_path):
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE.replace("planners:", "planers:"))
    for arguments, sentence in (
        (
            ("sweep", str(file), "--out", str(tmp_path / "out")),
            "line 2: unknown key 'planers'; did you mean 'planners'?",
        ),
        (("sweep", str(tmp_path / "no.yaml"), "--out", str(tmp_path / "out")), "No such file or directory"),
        (("report", str(tmp_path / "nowhere")), "holds no sweep"),
        (("trace", "hanoi/3"), "--out"),
        (("trace", "exponential/64", "--out", str(tmp_path / "x.html")), "has no phi_v"),
        (("trace", "hanoi/3", "--out", str(tmp_path / "no" / "x.html")), "x.html"),
        (("report", str(tmp_path / "nowhere"), "--out", str(tmp_path / "x.html")), "holds no sweep"),
    ):
        code, out, err = cli(*arguments)
        assert (code, out) == (2, "")
        assert sentence in err
        assert "Traceback" not in err
