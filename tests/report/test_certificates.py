"""Certificates, and proofs that were checked, in words."""

import dataclasses
import inspect
import json
import math
import re

import pytest

import tensorplan as tp
from tensorplan.core.jsonable import plain
from tensorplan.evaluation.row import certificate_columns, traces
from tensorplan.report.certificates import MEANINGS, certificate_lines, checked_lines, checked_row, confidences

SURE = tp.Certificate(2.0, 1.0, "certified", assumes="v* is linear")
LIKELY = tp.Certificate(2.0, 1.0, "eta", 0.05, 0.02, "v* is nearly linear", 0.5, ("no reward was seen",), 1.0, "proof")


def test_every_status_has_a_meaning():
    about = re.search(r"status: str\n(.*?)failure: float", inspect.getsource(tp.Certificate), re.DOTALL)[1]
    assert set(re.findall(r'``"(\w+)"``', about)) == set(MEANINGS)
    assert {"eta", "doubtful", "failed"} < set(MEANINGS)


def test_one_certificate_is_told_in_full():
    assert certificate_lines([SURE]) == [f"certified: {SURE.sentence}", "gap 1"]
    assert certificate_lines([LIKELY]) == [
        f"eta: {LIKELY.sentence}",
        "gap 1, of which eta explains 0.5; the lower bound holds at confidence 0.98, whatever the features, the upper "
        "one at 0.97; the misspecification eta explains the rest of the gap",
        "doubt: no reward was seen",
    ]
    (claim, more) = certificate_lines([tp.Certificate(math.inf, 0.0, "mine")])
    assert claim == "mine: v*(s0) is in [0, inf], whatever the features"
    assert more == "gap infinite"


def test_several_certificates_are_told_by_the_widest():
    wider = dataclasses.replace(LIKELY, upper=3.0, warnings=("no reward was seen", "time is ignored"))
    first, second, *doubts = certificate_lines([LIKELY, wider])
    assert first == "eta, 2 episodes: each v*(s0) is in its bracket, at confidence 0.95, if v* is nearly linear"
    assert second.startswith("the largest gap is 2, of which eta explains 0.5; the lower bound holds")
    assert doubts == ["doubt: no reward was seen", "doubt: time is ignored"]
    free = tp.Certificate(1.0, 1.0, "certified")
    assert certificate_lines([free] * 3) == [
        "certified, 3 episodes: each v*(s0) is in its bracket, whatever the features",
        "the largest gap is 0",
    ]


def test_a_refuted_certificate_claims_no_bracket():
    """The upper bound is that of the declared range, and says nothing about features."""
    refuted = tp.Certificate(20.0, 20.0, "refuted")
    assert certificate_lines([refuted]) == [
        "refuted: the features do not realize the values as declared; the policy earns at least 20 in any case, and no "
        "policy more than 20, by the declared range of returns",
        "the measurements contradict the assumption of the upper bound",
    ]
    several = certificate_lines([dataclasses.replace(refuted, failure=0.1)] * 2)
    assert several[0] == (
        "refuted, 2 episodes: the features do not realize the values as declared, at confidence 0.9; each policy earns "
        "at least its lower bound"
    )
    endless = tp.Certificate(math.inf, -3.0, "refuted", upper_anyway=7.0, anyway_failure=0.05)
    assert endless.sentence.endswith("at least -3 in any case, and no policy more than 7 (confidence 0.95)")
    assert not any("gap" in line or "is in" in line for line in [*several, endless.sentence])


def test_what_is_certain_has_no_confidence():
    assert confidences(0.0, 0.0, "v* is linear") == ""


def test_a_certificate_that_assumes_nothing_says_so_once_and_names_the_states_to_blame():
    free = tp.Certificate(2.0, 1.0, "limit", 0.05, 0.01, notes=("most of it comes from 3, stage 2",))
    assert certificate_lines([free]) == [
        "limit: v*(s0) is in [1, 2], at confidence 0.95, whatever the features",
        "gap 1; the lower bound holds at confidence 0.99, the upper one at 0.96; more queries would not narrow the "
        "bracket",
        "most of it comes from 3, stage 2",
    ]


def test_data_has_all_of_a_certificate_but_its_proof():
    data = plain(LIKELY)
    assert set(data) == {f.name for f in dataclasses.fields(tp.Certificate)} - {"proof"}
    row = certificate_columns(LIKELY)
    assert (row["certificate"], row["lower_failure"], row["warnings"]) == ("eta", 0.02, "no reward was seen")
    assert "proof" not in row
    assert certificate_columns(None) == {}


def test_traces_carry_the_certificate_that_they_led_to():
    (episode,) = tp.run(tp.make("hanoi/2"), tp.TensorPlan(trace=True)).episodes
    assert episode.certificate.proof is not None
    (told,) = traces([episode])
    assert told["certificate"]["status"] == "certified"
    assert told["certificate"]["assumes"].startswith("v*(s) = <phi_v(s), theta>")
    assert "proof" not in json.dumps(told)
    assert traces([dataclasses.replace(episode, trace=None)]) == [None]


@pytest.fixture(scope="module")
def proof():
    return tp.run(tp.make("hanoi/3"), tp.TensorPlan()).episodes[0].certificate.proof


def test_a_checked_proof_in_words_and_as_data(proof):
    checked = tp.check(proof)
    first, second, third, fourth = checked_lines(proof, checked)
    assert re.fullmatch(r"hanoi/3, exact mode: states \d+, answers \d+, rows \d+, disjunctions \d+, leaves \d+", first)
    assert second == "proved, for certain: v*(s0) is in [-7, -7], gap 0"
    assert third == f"the upper end assumes that {checked.assumes}"
    assert fourth == "a policy earns at least -7, whatever the features"
    row = checked_row(proof, checked)
    assert (row["problem"], row["mode"], row["refuted"], row["lower"], row["failure"]) == (
        "hanoi/3",
        "exact",
        False,
        -7,
        0,
    )
    assert row["states"] == len(proof.data["states"])
    assert row["gap"] == row["upper"] - row["lower"]


def test_a_refutation_in_words_and_as_data(proof):
    checked = dataclasses.replace(tp.check(proof), upper=None, failure=0.05)
    lines = checked_lines(tp.Proof({**proof.data, "mode": "certified"}), checked)
    assert "measurements" not in lines[0]
    assert lines[1:] == [
        "refuted, at confidence 0.95: a policy earns at least -7, whatever the features",
        f"it is not true that {checked.assumes}",
    ]
    row = checked_row(proof, checked)
    assert (row["refuted"], row["upper"], row["gap"]) == (True, None, None)
