"""The last hidden layer of a network as features: the scale, norms, batches; and modules of PyTorch."""

import pickle
import re
import warnings

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.features import FeatureMap, Frame, from_network, resolve
from tensorplan.features.network import NORM_MARGIN, HiddenFeatures, is_network

PLANE = Frame((-1.0, 0.0), (1.0, 2.0), horizon=4)
POINTS = np.random.default_rng(0).uniform(PLANE.low, PLANE.high, (50, 2))
WEIGHTS = np.array([[3.0, -1.0, 0.5], [1.0, 2.0, 0.0]])


def hidden(points):
    return np.maximum(points @ WEIGHTS, 0)


def rows_of(points):
    return np.column_stack((np.ones(len(points)), hidden(points)))


# ------------------------------------------------------------------------------------------ without PyTorch


def test_features_are_the_hidden_layer_and_a_constant_divided_by_one_scale():
    phi = HiddenFeatures(hidden, "net", None, PLANE)
    assert isinstance(phi, FeatureMap)
    assert (phi.dimension, phi.names) == (4, ("1", "net[0]", "net[1]", "net[2]"))
    np.testing.assert_allclose(phi.many(POINTS, 0) * phi.scale, rows_of(POINTS))
    corners = np.array([[x, y] for x in (-1.0, 1.0) for y in (0.0, 2.0)])  # where a convex function is largest
    assert phi.scale == pytest.approx(NORM_MARGIN * np.linalg.norm(rows_of(corners), axis=1).max())


def test_many_is_one_evaluation():
    sizes = []

    def counted(points):
        sizes.append(len(points))
        return hidden(points)

    phi = HiddenFeatures(counted, "net", 9.0, None)
    rows = phi.many(POINTS, range(50))
    assert sizes == [50]
    assert phi.dimension == 4
    np.testing.assert_array_equal(rows, [phi(x, 3) for x in POINTS])
    assert phi.many(np.zeros((0, 2)), 0).shape == (0, 4)


def test_norms_are_at_most_one_everywhere_and_it_is_said_once_that_they_were_cut():
    phi = HiddenFeatures(hidden, "net", 4.0, PLANE)
    inside = np.linalg.norm(rows_of(POINTS), axis=1) <= 4
    assert 0 < inside.sum() < 50
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rows = phi.many(POINTS, 0)
        phi(np.array([900.0, 900.0]), 0)
    (warning,) = said
    assert re.fullmatch(
        r"the network 'net' has features of norm .*, above scale=4: .*larger scale", str(warning.message)
    )
    np.testing.assert_allclose(rows[inside], rows_of(POINTS)[inside] / 4)
    np.testing.assert_allclose(np.linalg.norm(rows[~inside], axis=1), 1)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: np.full((len(x), 3), np.nan), "the network 'net' gave nan at x=[0. 1.], stage 0"),
        (lambda x: np.zeros((3, 2)), "the network 'net' gave 9 features, not 4, at x=[0. 1.], stage 0"),
        (lambda x: x @ np.ones(3), "the network 'net' raised ValueError at x=[0. 1.], stage 0: matmul"),
    ],
)
def test_networks_that_fail_get_one_sentence(function, sentence):
    phi = HiddenFeatures(hidden, "net", 9.0, PLANE)
    phi.hidden = function
    with pytest.raises(tp.ProblemError, match=re.escape(sentence)):
        phi(np.array([0.0, 1.0]), 0)


def test_no_scale_is_found_where_a_norm_is_not_finite():
    with pytest.raises(tp.ProblemError, match=r"^the network 'net' gave nan at x=\[.*\], stage 0$"):
        HiddenFeatures(lambda points: np.where(points > 0.9, np.nan, points), "net", None, Frame((0.0,), (1.0,)))


def test_a_batch_of_another_size_is_refused():
    phi = HiddenFeatures(hidden, "net", 9.0, PLANE)
    phi.hidden = lambda points: hidden(points)[:7]
    with pytest.raises(tp.ProblemError, match=r"gave an array \(7, 3\) for 50 points, expected \(50, 3\)$"):
        phi.many(POINTS, 0)


def test_the_scale_needs_a_frame():
    with pytest.raises(tp.BadInput, match=r"^the scale of the network 'net' is not known: give scale= or frame=$"):
        HiddenFeatures(hidden, "net", None, None)
    assert not is_network(hidden)
    with pytest.raises(tp.BadInput, match=r"^a network is a module of PyTorch \(torch.nn.Module\), got "):
        from_network(hidden)


# ------------------------------------------------------------------------------------------ with PyTorch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def net(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 3), nn.ReLU(), nn.Linear(3, 1))


def test_the_head_of_a_module_is_linear_in_its_features(torch, net):
    phi = resolve(net, PLANE)
    rows = phi.many(POINTS, 0)
    theta = phi.scale * np.append(net[-1].bias.detach(), net[-1].weight.detach()[0])
    assert net.training  # the copy is in evaluation mode, the module is not touched
    net.eval()
    values = net(torch.as_tensor(POINTS, dtype=torch.float32)).detach().numpy()[:, 0]
    np.testing.assert_allclose(rows @ theta, values, atol=1e-5)
    np.testing.assert_allclose([phi(x, 0) for x in POINTS], rows, atol=1e-14)
    assert (np.linalg.norm(rows, axis=1) <= 1).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(phi)).many(POINTS, 0), rows)
    with torch.no_grad():
        net[0].weight.zero_()
    np.testing.assert_array_equal(phi.many(POINTS, 0), rows)


def test_layers_by_name_and_modules_in_lists(torch, net):
    assert from_network(net, layer="3", frame=PLANE).dimension == 17
    both = resolve(["linear@time", net], PLANE, scale=50.0)
    assert both.dimension == 4 + 4
    np.testing.assert_allclose(both.many(POINTS, 1)[:, 4], 1 / 50 / np.sqrt(2))
    for make, sentence in (
        (lambda: from_network(net, layer="4x", scale=2.0), "the network 'Sequential' has no layer '4x'; "),
        (lambda: from_network(torch.nn.ReLU(), scale=2.0), "the network 'ReLU' has no Linear layer: name its last"),
    ):
        with pytest.raises(tp.BadInput, match=f"^{sentence}"):
            make()
    with pytest.raises(
        tp.ProblemError, match=r"^the network 'Linear' raised RuntimeError at x=\[0. 1.\], stage 0: mat1"
    ):
        resolve(torch.nn.Linear(3, 2), PLANE)


def test_a_module_that_works_in_single_precision(torch):
    class Policy(torch.nn.Module):  # type: ignore[name-defined]
        """As in Stable-Baselines3: two heads, of which the one for values is not the last."""

        def __init__(self):
            super().__init__()
            self.body, self.value_net, self.action_net = (torch.nn.Linear(*n) for n in ((2, 5), (5, 1), (10, 2)))

        def forward(self, x, deterministic=False):
            assert deterministic
            h = self.body(x.float()).float()
            return self.value_net(h), self.action_net(torch.cat((h, h), dim=1))

    assert resolve(Policy(), PLANE).dimension == 6
    assert from_network(Policy(), layer="action_net", frame=PLANE).dimension == 11


def test_plans_with_the_features_of_a_network(torch, net):
    car = tp.from_gym("MountainCar-v0", features=net, bound=500.0)
    state = car.mdp.start(np.random.default_rng(0))
    assert car.state_features(state, 0).shape == (4,)
    np.testing.assert_allclose(car.phi_v.many([state, state], 0), [car.state_features(state, 0)] * 2, atol=1e-14)
