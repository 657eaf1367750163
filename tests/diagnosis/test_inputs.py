"""Names, coordinates and other features; and the command, which is made of them."""

import json

import pytest
from lines import Line, Noisy, line

import tensorplan as tp
from tensorplan.diagnosis.diagnosis import diagnose
from tensorplan.diagnosis.inputs import named, points_of, refeatured


def test_coordinates_of_states():
    points = points_of(tp.make("grid/4x6"))
    assert (points.frame.low, points.frame.high, points.frame.whole) == ((0, 0), (3, 5), True)
    assert points.point((1, 2)).tolist() == [1, 2]
    numbered = points_of(tp.make("layered", actions=2, d=3, states=5, horizon=4))
    assert (numbered.frame.high, numbered.frame.horizon) == ((19.0,), 4)
    with pytest.raises(tp.BadInput, match="cannot be listed"):
        points_of(line(Noisy()))

    class Words(Line):
        horizon = 1

        def start(self, rng):
            return "here"

        def step(self, state, action, rng):
            return 0.0, tp.END

    with pytest.raises(tp.BadInput, match="not numbers"):
        points_of(line(Words()))


def test_other_features_for_a_problem():
    grid = refeatured(tp.make("grid/4x6"), "poly1")
    assert diagnose(grid)["v"].realized
    assert diagnose(grid)["v"].suffices is False  # B is that of other features
    assert diagnose(refeatured(tp.make("grid/4x6"), "poly1", bound=50.0))["v"].suffices
    mdp = tp.make("layered", actions=2, d=3, states=5, horizon=4).mdp
    pairs = refeatured(tp.featurize(mdp, 3), "onehot", kind="q", bound=100.0)
    part = diagnose(pairs)["q"]
    assert part.realized
    assert part.dimension == 2 * 20
    assert {r.zero for r in part.redundant} == {True}
    assert part.redundant[0].name.startswith("action 0: state=")


def test_names_of_both_kinds():
    pytest.importorskip("gymnasium")
    lake = named("FrozenLake-v1", features="poly2", horizon=10)
    assert (lake.horizon, lake.phi_v.map.name) == (10, "poly2")
    assert named("hanoi/3", discount=0.5).discount == 0.5
    assert diagnose(named("hanoi/3", discount=0.5))["v"].eta.lower > 0.01  # the marks realize the undiscounted value
    with pytest.raises(tp.BadInput, match="did you mean 'hanoi/6'"):
        named("hanoy/4")
    with pytest.raises(tp.BadInput, match="'FrozenLake-v1'"):
        named("FrozenLake")
    with pytest.raises(tp.BadInput, match="--features poly2"):
        named("FrozenLake-v1")
    with pytest.raises(tp.BadInput, match="part of its name"):
        named("hanoi/3", horizon=4)


def test_the_command_shows_one_screen(cli):
    code, out, err = cli("diagnose", "grid/5x5", "--features", "poly1+poly2")
    assert (code, err) == (0, "")
    assert "realized within" in out
    assert "combinations of earlier ones" in out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24


def test_the_command_gives_plain_data(cli):
    code, out, _ = cli("diagnose", "layered-stochastic/2x3", "--features", "poly2", "--bound", "3", "--json")
    assert code == 0
    data = json.loads(out)
    (part,) = data["parts"]
    assert part["method"] == "fitted"
    lower, upper = part["eta"]["lower"], part["eta"]["upper"]
    assert 0 < lower <= upper <= lower + 1e-6
    assert part["declared_bound"] == 3
    assert len(part["theta"]) == part["dimension"] == 3
    assert {"stage", "state", "value", "fitted", "residual", "weight", "action"} == set(part["worst"][0])


def test_the_command_on_an_environment(cli):
    pytest.importorskip("gymnasium")
    code, out, _ = cli("diagnose", "FrozenLake-v1", "--features", "poly2", "--horizon", "12")
    assert code == 0
    assert "worst at" in out
    code, out, _ = cli("diagnose", "FrozenLake-v1", "--features", "onehot@stage", "--horizon", "3", "--kind", "q")
    assert "realized within" in out
    assert "random transitions" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no problem and no environment 'nowhere'; did you mean"),
        (["hanoi/4", "--horizon", "5"], "part of its name"),
        (["hanoi/4", "--features", "poli2"], "poli"),
        (["hanoi/4", "--kind", "q"], "has no phi_q"),
        (["hanoi/4", "--bound", "0"], "--bound"),
        (["hard/2x3", "--features", "poly2"], "cannot be listed"),
    ],
)
def test_the_command_complains_in_one_sentence(cli, arguments, sentence):
    code, out, err = cli("diagnose", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
