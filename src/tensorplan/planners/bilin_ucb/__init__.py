"""BiLin-UCB for linear q* and v*, under global access."""
