"""The evaluation of planners: verdicts and comparisons."""
