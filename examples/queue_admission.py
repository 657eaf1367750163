"""A queue with a gate, A = 2: should the next customer be let in?

Run it with ``python examples/queue_admission.py``; docs/cases/queue_admission.md says what it shows.
"""

import tensorplan as tp

problem = tp.make("queue-admission/10:features=poly4")
best = [n for n in range(11) if problem.optimal_policy(n) == 1]
print(f"v*(s0) = {problem.optimal_value(0):.3f}; the gate is best open with {best} present, shut with more")
print(f"poly4: d = {problem.dimension}, misses v* by eta = {problem.eta:.4f}\n")

planners: dict[str, tp.Planner] = {
    "TensorPlan": tp.TensorPlan(delta=1.5, eta=problem.eta),
    "UCT": tp.UCT(simulations=36, depth=15),
    "sparse sampling": tp.SparseSampling(width=6, depth=8),
    "random": tp.RandomPlanner(),
}
table = tp.side_by_side(problem, planners, episodes=60, max_steps=30)
print(table)


def bracket(certificate: tp.Certificate | None) -> str:
    """What a certificate says."""
    assert certificate is not None
    return f"{certificate.status}, v*(s0) in [{certificate.lower:.2f}, {certificate.upper:.2f}]"


print("\npoly4 with its eta:", bracket(table.lines[0].certificate))
for spec in ("poly2", "poly1"):
    task = tp.make(f"queue-admission/10:features={spec}")
    print(f"{spec} as if it were right (it misses by {task.eta:.2f}):", end=" ")
    try:
        print(bracket(tp.run(task, tp.TensorPlan(delta=1.0), max_steps=30).episodes[0].certificate))
    except tp.NotRealizable:
        print("refuted")
