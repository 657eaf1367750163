"""A small version of the study: brackets in hindsight are wrong no more often than stated."""

from benchmarks.hindsight_validity import CONFIDENCES, Tally, allowed, audited, planned, random_case

PROBLEMS = 60


def test_brackets_are_wrong_no_more_often_than_stated():
    """Every look of every run; with false alarms once in a thousand times, 10 of 60 may be wrong at 0.95, 36 at 0.6."""
    tally = Tally()
    for seed in range(PROBLEMS):
        case = random_case(seed, largest=8_000)
        confidence = CONFIDENCES[seed % 2]
        audited(case, confidence, seed, tally)
        planned(case, confidence, seed, tally)
    assert tally.exceeded == 0
    for what, runs in tally.runs.items():
        assert runs == PROBLEMS / 2
        assert tally.wrong[what] <= allowed(runs, 1 - what[1]), tally.missed
    assert sum(tally.useful.values()) > 30
