"""Audit a trained agent: PPO of Stable-Baselines3 on an inventory with lost sales, with its own critic as V.

Needs the extra ``sb3``; run it with ``python examples/trained_agent.py`` (about three minutes); docs/trained_agent.md
says what it shows.
"""

from functools import cache

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import tensorplan as tp

torch.set_num_threads(1)  # for a network this small more of them are slower

problem = tp.make("lost-sales/2:features=poly1")  # observations: stock, orders under way, and the stage
view = tp.to_gym(problem).get_wrapper_attr("view")
envs = make_vec_env(lambda: tp.to_gym(problem), 8, seed=0)
agent = PPO("MlpPolicy", envs, gamma=1.0, n_steps=240, batch_size=240, learning_rate=1e-3, ent_coef=0.005, seed=0)
agent.learn(300_000)


@cache
def policy(state: tuple[int, ...], stage: int) -> int:
    """The agent's action."""
    return int(agent.predict(view(state, stage), deterministic=True)[0])


@cache
def critic(state: tuple[int, ...], stage: int) -> float:
    """The agent's own estimate of the return."""
    with torch.no_grad():
        return float(agent.policy.predict_values(agent.policy.obs_to_tensor(view(state, stage))[0]))


for name, value in (("its critic", critic), ("fitted values", None)):
    audit = tp.audit(problem, policy, value, budget=20_000_000)
    print(f"\nV: {name}, {audit.queries:,} queries, {audit.seconds:.0f} s\n{audit.sentence}")
    print("most of the gap:", ", ".join(f"{place} ({share.total:.3f})" for place, share in audit.states[:3]))
