"""Proofs, from plan --proof to the command check."""

import json
import random
import re

import pytest
from commands import interrupting


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
    assert ", measured " in out
    assert "proved, at confidence 0.95: v*(s0) is in [" in out
    code, out, _ = cli("check", str(proofs["refuted"]))
    assert code == 0
    assert "refuted, for certain: a policy earns at least " in out
    assert "it is not true that v*(s) " in out


def test_a_refutation_comes_with_its_proof(cli, tmp_path):
    path = tmp_path / "proof.json"
    code, out, err = cli("plan", "layered/3x6:eta=0.3", "--proof", str(path))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "refuted: the features do not realize the values as declared" in out
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
    "a smaller radius": ("certified", lambda data: data["radii"][0].__setitem__(0, 1e-6)),
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
