"""The claims of the paper (Weisz et al. 2022) as experiments and exact checks."""
