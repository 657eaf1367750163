"""An American put, A = 2: exercise it today, or hold it?

Run it with ``python examples/american_option.py``; docs/cases/american_option.md says what it shows.
"""

import tensorplan as tp

problem = tp.make("american-put/6:features=payoff")
print(f"v*(s0) = {problem.optimal_value(0):.3f} is the price of the put")
print(f"payoff: d = {problem.dimension}, misses v* by eta = {problem.eta:.4f}\n")

planners: dict[str, tp.Planner] = {
    "TensorPlan": tp.TensorPlan(delta=0.5, eta=problem.eta),
    "UCT": tp.UCT(simulations=120),
    "sparse sampling": tp.SparseSampling(width=4),
    "random": tp.RandomPlanner(),
}
table = tp.side_by_side(problem, planners, episodes=500, sessions=10)
print(table)


def bracket(certificate: tp.Certificate | None) -> str:
    """What a certificate says."""
    assert certificate is not None
    return f"{certificate.status}, v*(s0) in [{certificate.lower:.2f}, {certificate.upper:.2f}]"


print("\npayoff with its eta:", bracket(table.lines[0].certificate))
task = tp.make("american-put/6:features=poly2@time")
print(f"poly2@time as if it were right (it misses by {task.eta:.2f}):", end=" ")
try:
    print(bracket(tp.run(task, tp.TensorPlan(delta=0.5)).episodes[0].certificate))
except tp.NotRealizable:
    print("refuted")
