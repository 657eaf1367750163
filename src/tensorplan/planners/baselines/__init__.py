"""The rivals, and the two ends of every comparison."""
