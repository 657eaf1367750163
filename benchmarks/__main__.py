"""All measurements, one after the other: ``make bench``."""

from benchmarks import (
    access,
    backward_induction,
    certified,
    clauses,
    equations,
    frozen_lake,
    game,
    gym,
    hard,
    hindsight,
    many,
    optimism,
    simulators,
    startup,
    tensorplan,
)

for part in (startup, access, many, frozen_lake, backward_induction, game, hard):
    part.main()
optimism.main(["--quick"])
tensorplan.main(["--quick"])
equations.main(["--quick"])
certified.main(["--quick"])
clauses.main(["--quick"])
hindsight.main(["--quick"])
gym.main(["--only", "throughput"])
simulators.main(["--only", "restoring"])
