"""Proofs as files: honest ones are accepted, and whatever is done to the derivation, nothing false is."""

import copy
import json
import math
import random

import numpy as np
import pytest
from benchmarks import families, soundness

import tensorplan as tp
from tensorplan.proofs import Proof, check

DERIVATION = ("rows", "forms", "passes", "ranged", "earned", "tree", "claim", "returns")
"""What a proof derives from its transcript; the transcript itself is taken as given."""


def certified(spec, planner=None, seed=0, **options):
    """The certificate of one episode, and v*(s0)."""
    task = tp.make(spec, **options)
    try:
        run = tp.run(task, planner or tp.TensorPlan(), seed=seed)
    except tp.NotRealizable as refuted:
        run = refuted.run
    (episode,) = run.episodes
    return episode.certificate, task.optimal_value(episode.start)


HONEST = {
    "hanoi": ("hanoi/4", tp.TensorPlan()),
    "layered": ("layered/3x4:horizon=6", tp.TensorPlan()),
    "all": ("layered/3x4:horizon=6", tp.TensorPlan(ask="all")),
    "budget": ("layered/3x4:horizon=6", tp.TensorPlan(budget=25)),
    "eta": ("layered/2x3:horizon=6:eta=0.01", tp.TensorPlan(eta=0.01)),
    "stochastic": ("layered-stochastic/2x3", tp.TensorPlan(delta=1.0)),
    "cases": ("layered-stochastic/2x3:seed=2", tp.TensorPlan(delta=0.5)),
    "rows": ("layered-stochastic/2x3:seed=2", tp.TensorPlan(delta=1.5)),
    "certified": ("layered/2x3:horizon=4", tp.TensorPlan(mode="certified", delta=1.0)),
    "q": ("layered/2x3:horizon=4:kind=q", tp.TensorPlanQ()),
    "equations": ("layered/2x49:horizon=4", tp.TensorPlan()),
}


@pytest.fixture(scope="module", params=HONEST)
def honest(request):
    spec, planner = HONEST[request.param]
    return certified(spec, planner)


def test_honest_proofs_prove_what_is_claimed(honest, tmp_path):
    certificate, optimal = honest
    certificate.proof.save(tmp_path / "proof.json")
    for proof in (certificate.proof, Proof.load(tmp_path / "proof.json")):
        checked = check(proof)
        assert checked.lower == pytest.approx(certificate.lower, abs=1e-7)
        assert checked.upper == pytest.approx(certificate.upper, abs=1e-7)
        assert checked.lower - 1e-9 <= optimal <= checked.upper + 1e-9
        assert checked.failure == certificate.failure
        assert checked.assumes == certificate.assumes
        assert certificate.assumes in checked.sentence


@pytest.mark.parametrize("seed", range(20))
def test_proofs_of_random_problems(seed):
    rng = np.random.default_rng(seed)
    sizes = {"actions": int(rng.integers(2, 5)), "d": int(rng.integers(2, 8)), "horizon": int(rng.integers(2, 9))}
    certificate, optimal = certified("layered", seed=seed, **sizes)
    checked = check(certificate.proof)
    assert checked.lower - 1e-9 <= optimal <= checked.upper + 1e-9


@pytest.mark.parametrize("kind", soundness.KINDS, ids=lambda kind: kind.name)
def test_whatever_ended_the_planning_its_proof_holds(kind):
    """Awkward random problems, and budgets that end it anywhere: returns, rows and bounds as they are then."""
    rng, statuses = np.random.default_rng(0), set()
    for seed in range(6):
        task = soundness.random_problem(kind, seed)
        delta = float(rng.uniform(0.5, 0.9)) * min(task.return_range(0)[1], task.bound)
        session = tp.TensorPlan(delta=delta).session()
        for _ in range(2):
            (episode,) = tp.run(task, session, seed=seed, budget=int(10 ** rng.uniform(2, 5))).episodes
            certificate = episode.certificate
            checked = check(certificate.proof)
            assert checked.lower == certificate.lower
            assert checked.upper == pytest.approx(certificate.upper, abs=1e-7)
            assert checked.assumes == certificate.assumes
            statuses.add(certificate.status)
    assert statuses == {"certified", "budget"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_policies_without_features_refute_with_a_proof():
    """Only their returns contradict the rows."""
    cases = [*families.mazes([0]), *(case for case in families.lakes() if case.name == "hidden lake poly1")]
    for case in cases:
        certificate = families.judge(case, 0, 100_000).certificate
        assert certificate.status == "refuted"
        checked = check(certificate.proof)
        assert checked.upper is None
        assert checked.lower == certificate.lower


def test_bounds_that_are_infinite_or_trivial(tmp_path):
    certificate, _ = certified("hanoi/5", tp.TensorPlan(budget=20))
    assert certificate.lower == -math.inf
    certificate.proof.save(tmp_path / "proof.json")
    proof = Proof.load(tmp_path / "proof.json")
    assert check(proof).lower == -math.inf
    proof.data["claim"]["upper"] = -40.0  # and v* is -31
    with pytest.raises(tp.CertificateError, match="upper bound"):
        check(proof)
    certificate, _ = certified("layered/3x4", tp.TensorPlan(budget=0))
    checked = check(certificate.proof)
    assert checked.assumes == certificate.assumes == ""
    assert "whatever the features" in checked.sentence


def test_a_refutation_is_a_proof_too():
    for spec, planner in (
        ("layered/3x4:horizon=6:eta=0.3", tp.TensorPlan()),
        ("layered-stochastic/2x3:horizon=3:eta=1.0:states=8:seed=1", tp.TensorPlan(delta=0.3)),
    ):
        certificate, _ = certified(spec, planner)
        assert certificate.status == "refuted"
        checked = check(certificate.proof)
        assert checked.upper is None
        assert checked.sentence.startswith("refuted")


def test_a_discounted_problem_without_end():
    rng = np.random.default_rng(0)
    steps = np.eye(12)[rng.integers(12, size=(12, 2))]
    task = tp.featurize(tp.TabularMDP(steps, rng.random((12, 2)), horizon=None), 4, discount=0.9)
    (episode,) = tp.run(task, tp.TensorPlan()).episodes
    checked = check(episode.certificate.proof)
    assert checked.upper == pytest.approx(episode.certificate.upper, abs=1e-7)


# ------------------------------------------------------------------------------------------- tampering


def places(data, path=()):
    """Where the numbers of nested lists and dictionaries are."""
    if isinstance(data, dict):
        return [p for key, value in data.items() for p in places(value, (*path, key))]
    if isinstance(data, list):
        return [p for key, value in enumerate(data) for p in places(value, (*path, key))]
    return [path]


def mutate(data, dice):
    """One number of the derivation becomes another one, or a part of it goes, comes twice, or changes places."""
    data = copy.deepcopy(data)
    derived = [p for part in DERIVATION if part in data for p in places(data[part], (part,))]
    for i, case in enumerate((data.get("sum") or {"cases": ()})["cases"]):
        way = ("sum", "cases", i)
        derived += [*places(case["choices"], (*way, "choices")), *places(case["tree"], (*way, "tree"))]
    *way, last = dice.choice(derived)
    parent = data
    for key in way:
        parent = parent[key]
    old = parent[last]
    if isinstance(old, bool) or old is None or isinstance(old, str):
        parent[last] = dice.choice(["certified", "refuted", "inf", "-inf", "nan", "none", "path", None, 0])
    elif isinstance(old, int):
        parent[last] = old + dice.choice([-1, 1, 2, 10**6])
    else:
        parent[last] = dice.choice([old * 0.9, old * 1.1, old - 0.1, old + 0.1, -old, 0.0, 1e300, old - 1e-6])
    if isinstance(parent, list) and dice.random() < 0.2:
        dice.choice([parent.reverse, lambda: parent.pop(last), lambda: parent.insert(last, old)])()
    return data


def test_no_derivation_from_an_honest_transcript_proves_anything_false(honest):
    """Whatever is changed: it is refused in one sentence, or what it proves is true all the same."""
    certificate, optimal = honest
    dice, sentences = random.Random(0), []
    for _ in range(250):
        data = mutate(certificate.proof.data, dice)
        for _ in range(dice.choice([0, 0, 1, 3])):
            data = mutate(data, dice)
        try:
            checked = check(Proof(data))
        except tp.CertificateError as error:
            sentences.append(str(error))
            continue
        assert checked.upper is not None
        assert checked.lower - 1e-6 <= optimal <= checked.upper + 1e-6
    assert len(sentences) > 60
    assert all("\n" not in sentence and len(sentence) <= 300 for sentence in sentences)


def test_claims_that_are_better_than_proved_are_refused(honest):
    certificate, _ = honest
    for name, change in (("upper", -1e-3), ("lower", 1e-3)):
        data = copy.deepcopy(certificate.proof.data)
        data["claim"][name] += change
        with pytest.raises(tp.CertificateError, match=f"{name} bound|returns do not show"):
            check(Proof(data))
    data = copy.deepcopy(certificate.proof.data)
    data["claim"]["status"] = "refuted"
    with pytest.raises(tp.CertificateError, match="refuted exactly when"):
        check(Proof(data))


def test_a_box_does_not_rest_on_itself():
    """Rows that are tightened by a box need the passes that prove it."""
    certificate, _ = certified(*HONEST["rows"])
    assert certificate.proof.data["sum"] is None
    data = copy.deepcopy(certificate.proof.data)
    assert data["passes"]
    data["passes"].pop()
    with pytest.raises(tp.CertificateError, match=r"is claimed, and .* is needed"):
        check(Proof(data))


def test_cases_have_to_cover_all_choices_and_mean_what_they_say():
    certificate, _ = certified(*HONEST["cases"])
    cases = certificate.proof.data["sum"]["cases"]
    assert len(cases) > 1
    for i, case in enumerate(cases):
        data = copy.deepcopy(certificate.proof.data)
        del data["sum"]["cases"][i]
        with pytest.raises(tp.CertificateError, match="do not cover all choices"):
            check(Proof(data))
        if any(term["weight"] < 0 for term in case["terms"]):
            data = copy.deepcopy(certificate.proof.data)
            data["sum"]["cases"] = [{**copy.deepcopy(case), "choices": []}]
            with pytest.raises(tp.CertificateError, match="optimal in a case that does not say so"):
                check(Proof(data))


def test_statistics_that_are_better_than_the_samples_allow_are_refused():
    certificate, _ = certified(*HONEST["cases"])

    def fewer(data):
        for part in (*data["measured"], *data["sum"]["cases"]):
            for samples in part.get("samples", part.get("terms")):
                samples["scatter"] = (4 * np.array(samples["scatter"])).tolist()

    changes = {
        "scatter": (fewer, "radius"),
        "zeta": (lambda data: data.update(zeta=data["zeta"] / 100), "radius|confidence"),
        "number": (
            lambda data: data["measured"][1].update(number=data["measured"][0]["number"]),
            "the same share",
        ),
        "sum": (lambda data: data["sum"].update(number=10**6), "radius"),
        "returns": (lambda data: data["returns"]["values"].pop(), "do not show"),
        "policy": (lambda data: data["returns"].update(number=10**6), "do not show"),
        "bets": (lambda data: data["returns"].update(bets=[[1.5, 1]]), "share of the wealth"),
    }
    for change, sentence in changes.values():
        data = copy.deepcopy(certificate.proof.data)
        change(data)
        with pytest.raises(tp.CertificateError, match=sentence):
            check(Proof(data))


# ------------------------------------------------------------------------------------------- files


def test_a_file_that_was_changed_is_refused(tmp_path):
    certificate, _ = certified("hanoi/3")
    path = tmp_path / "proof.json"
    certificate.proof.save(path)
    text, dice, sentences = path.read_text(), random.Random(1), []
    for _ in range(200):
        place = dice.randrange(len(text))
        path.write_text(text[:place] + dice.choice('0123456789e-.,[]{}" x') + text[place + 1 :])
        if path.read_text() == text:
            continue
        try:
            same = Proof.load(path).data == certificate.proof.data
        except tp.CertificateError as error:
            sentences.append(str(error))
        else:
            assert same  # a space or a digit that does not matter
    assert len(sentences) > 150
    assert all("proof.json" in sentence and "\n" not in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read as a proof"),
        (b"\xff\xfe", "cannot be read as a proof"),
        (b"[1, 2]", "is not a file of the format"),
        (b'{"format": "tensorplan proof 9"}', "is not a file of the format"),
        (b'{"format": "tensorplan proof 2"}', "its digest does not match"),
        (b"[" * 100_000, "cannot be read as a proof"),
        (b'{"format": "tensorplan proof 2", "zeta": NaN}', "cannot be read as a proof"),
    ],
)
def test_what_is_no_proof(content, sentence, tmp_path):
    path = tmp_path / "proof.json"
    path.write_bytes(content)
    with pytest.raises(tp.CertificateError, match=sentence):
        Proof.load(path)


def test_proofs_without_parts():
    certificate, _ = certified("hanoi/3")
    for part in certificate.proof.data:
        data = {key: value for key, value in certificate.proof.data.items() if key != part}
        with pytest.raises(tp.CertificateError):
            check(Proof(data))
    with pytest.raises(tp.CertificateError):
        check(Proof({}))


def test_numbers_come_back_to_the_bit(tmp_path):
    certificate, _ = certified(*HONEST["stochastic"])
    certificate.proof.save(tmp_path / "proof.json")
    loaded = Proof.load(tmp_path / "proof.json")
    assert json.dumps(loaded.data) == json.dumps(certificate.proof.data)
    assert all(math.isfinite(x) for x in (loaded.data["claim"]["upper"], loaded.data["claim"]["lower"]))
