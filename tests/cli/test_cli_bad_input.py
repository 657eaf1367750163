"""What is wrong with the arguments of a command, in one sentence."""

import pytest


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
        (["plan", "hanoi/3", "--time-limit", "0"], "time_limit must be a positive number of seconds, got 0.0"),
        (["plan", "hanoi/3", "--time-limit", "nan"], "time_limit must be a positive number of seconds, got nan"),
        (["plan", "hanoi/3", "--time-limit", "soon"], "'soon' is not a valid float"),
        (["plan", "hanoi/3", "--planner", "oracle", "--time-limit", "1"], "Oracle() takes no time limit"),
        (["plan", "layered/2x3", "--planner", "tensorplan:mode=paper", "--time-limit", "1"], "is not for mode 'paper'"),
        (["compare", "hanoi/3", "--planners", "oracle", "--time-limit", "-1"], "seconds, got -1.0"),
        (["audit", "american-put/6", "--planner", "random", "--time-limit", "-1"], "seconds, got -1.0"),
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
