"""How well a planner does: verdicts and comparisons."""
