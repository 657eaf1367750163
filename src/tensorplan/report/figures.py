"""Figures, for those who would rather look; they need matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorplan.core import BadInput
from tensorplan.game import Cost
from tensorplan.lab.hardness import Hardness


def hardness_figure(hardness: Hardness, path: str) -> None:
    """Cost against p on a logarithmic scale: measured with intervals, 2^p/|W_close|, and the bounds."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name in dict.fromkeys(c.strategy for c in hardness.costs):
        costs = [c for c in hardness.costs if c.strategy == name and c.found]
        sizes, means = [c.p for c in costs], [c.mean.mean for c in costs]
        below, above = [c.mean.mean - c.mean.low for c in costs], [c.mean.high - c.mean.mean for c in costs]
        axes.errorbar(sizes, means, yerr=[below, above], marker="o", capsize=3, label=f"{name}, measured")
    _bounds(axes, [c for c in hardness.costs if c.strategy == hardness.costs[0].strategy])
    axes.set(xlabel="p", ylabel="queries", yscale="log", title="Search in the abstract game")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _bounds(axes: Any, costs: Sequence[Cost]) -> None:
    sizes = [c.p for c in costs]
    axes.plot(sizes, [float(c.bound.guesses) for c in costs], "k:", label="$2^p/|W_{close}|$")
    axes.plot(sizes, [float(c.bound.sharp) or None for c in costs], "k--", label="forced, by the sharp count")
    axes.plot(sizes, [float(c.bound.forced) or None for c in costs], "k-", label="forced, by the theorem: 0.05 n")


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise BadInput("figures need matplotlib: install tensorplan[plot]") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
