"""A planner that follows a script, and the loop in which agents are called."""


class Script:
    """A planner that asks about action 1, ``ask`` times, and does as the function says; it remembers its episodes."""

    def __init__(self, act=lambda node: 1, ask=1):
        self.do, self.ask, self.roots, self.nodes = act, ask, [], []

    def begin(self, access, rng):
        self.access = access
        self.roots.append((access.root.key, access.root.stage, access.horizon))
        return self

    def act(self, node):
        self.access.query(node, 1, self.ask)
        self.nodes.append((node.key, node.stage))
        return self.do(node)


def episode(agent, env, seed=None, limit=1000):
    """An evaluation loop as everybody writes it."""
    env.reset(seed=seed)
    actions, rewards, over = [], [], False
    while not over and len(actions) < limit:
        actions.append(agent.act(env))
        _, reward, terminated, truncated, _ = env.step(actions[-1])
        rewards.append(reward)
        over = terminated or truncated
    return actions, rewards
