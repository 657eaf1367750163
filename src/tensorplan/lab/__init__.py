"""How well: statistics, verdicts, comparisons."""
