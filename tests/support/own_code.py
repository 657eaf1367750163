"""A file of the user's own, from which names such as mine:make_problem are taken."""

OWN = """
import numpy as np
import tensorplan as tp

class Steps:
    actions = 2
    deterministic_transitions = deterministic_rewards = True
    def __init__(self, size): self.horizon = size
    def start(self, rng): return 0
    def step(self, state, action, rng): return float(action), state + 1

def make_problem(size=3):
    return tp.Problem(Steps(size), lambda s, h: np.array([1 - h / size]), bound=float(size), name=f"steps {size}")

def draw_problem(seed=0):
    return make_problem(size=seed + 1)

class MyPlanner:
    def __init__(self, action=1): self.action = action
    def begin(self, access, rng): return self
    def act(self, node): return self.action
    def __repr__(self): return f"MyPlanner({self.action})"

def nothing(): return None
def simulator(): return Steps(3)
def broken(): raise RuntimeError("out of paper")
"""
