"""Planners: TensorPlan in its modes, the planners for linear q*, BiLin-UCB, and baselines."""
