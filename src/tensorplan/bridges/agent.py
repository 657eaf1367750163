"""A planner as an agent for evaluation loops that are written already: the environment in, an action out."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from tensorplan.bridges.replanning import Position, Replanner
from tensorplan.core import Certificate, Planner, Problem
from tensorplan.core.errors import BadInput, NotRealizable
from tensorplan.problems.catalog import as_problem
from tensorplan.problems.tables.tabular import TabularMDP


class PlannerAgent:
    """A planner, or the spec of one, that acts in Gymnasium environments, metered, without touching them.

    ``problem``: what to plan in, for all environments of its kind.  Without it an environment made by
    :func:`tensorplan.to_gym` brings its own, whatever is wrapped around it, and any other becomes one by
    ``from_gym(env, **options)``; both happen anew for another environment.  ``budget`` bounds the queries of a planning
    episode, and where the planner cannot go on with what is left, ``act`` raises BudgetSpent.

    A planning episode begins with the first ``act`` and goes on as long as the environment is one step further each
    time.  It begins anew, from the state and the stage that the environment is in,

    * where the environment was reset: its clock says so, which is that of ``gymnasium.make`` (TimeLimit) or of our own
      environments;
    * where the environment is in a state to which the last action cannot have led: in tables, and where transitions are
      deterministic and states can be compared.  So it is all right to take other actions than those of the agent;
    * where the horizon of the problem is over and the environment goes on.  The stage is the clock modulo the horizon.

    Where a planning episode begins, the environment is compared with what it was when the problem was made: its table,
    or those plain attributes that steps do not change, such as its gravity.  One that has changed becomes a new
    problem, and nothing is kept of the old one.  Where the problem was given it is an error, or a warning where it is
    not known, as it is for tables and classic control, that steps do not change such an attribute.

    Where neither clock nor state tells, call ``reset()`` when you reset the environment.
    """

    def __init__(
        self,
        planner: Planner | str,
        problem: Problem | str | None = None,
        *,
        budget: int | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if problem is not None and options:
            raise BadInput(f"{next(iter(options))!r} is an option for making a problem, and a problem was given")
        self._replanner = Replanner(planner, budget=budget, seed=seed)
        self._given = None if problem is None else as_problem(problem, seed)
        self._options = options
        self._env: Any = None
        self._table: Any = None
        """The transition table of the environment, where it has one, when it was last looked at."""
        self._reset = False
        """Whether the environment was reset, by what the user says."""
        if self._given is not None:
            self._replanner.plan_in(self._given)

    @property
    def problem(self) -> Problem:
        """What the agent plans in; there is none before the first environment, unless it was given."""
        return self._replanner.problem

    @property
    def queries(self) -> list[int]:
        """The queries of each call of ``act`` so far, in order; a call that was cut short is listed too."""
        return list(self._replanner.queries)

    @property
    def certificate(self) -> Certificate | None:
        """Of the current planning episode, where the planner gives one; it is about the state where that began."""
        return self._replanner.certificate

    @property
    def refutation(self) -> NotRealizable | None:
        """The last proof that the features do not realize v*; the agent goes on with the best policy found."""
        return self._replanner.refutation

    def reset(self) -> None:
        """Begin a new planning episode with the next ``act``."""
        self._reset = True
        self._replanner.reset()

    def act(self, env: Any, observation: Any = None) -> int:
        """The action in the state that the environment is in.

        ``observation``: what it showed last, for the few that cannot be asked for it again.  Where the observation is
        the state, as in tables, ``act(observation)`` does without the environment.
        """
        if not _is_env(env):
            return self._replanner.act(self._seen(env))
        self._recognise(env)
        position = self._position(env, observation)
        if not self._replanner.goes_on(position):
            if self._renewed(env, fresh=position.clock == 0 or self._reset):
                position = self._position(env, observation)
            self._replanner.begin(position)
        self._reset = False
        return self._replanner.advise(position)

    def _recognise(self, env: Any) -> None:
        """See to it that there is a problem of this environment."""
        from tensorplan.bridges.problem_env import ProblemEnv

        base, table = env.unwrapped, getattr(env.unwrapped, "P", None)
        if self._given is None and isinstance(base, ProblemEnv):
            self._replanner.plan_in(base.problem)
        elif self._given is None and env is not self._env:
            self._replanner.plan_in(self._adapted(env))
        elif table is not self._table:
            self._renewed(env, fresh=False)
        self._env, self._table = env, table

    def _renewed(self, env: Any, fresh: bool) -> bool:
        """Whether the environment had changed since it was adapted, and was adapted anew; with a problem, an error."""
        changed = self._changed(env, fresh)
        if changed is None:
            return False
        where = f"{env}: its {changed!r} is not what it was when problem {self.problem.name!r} was made"
        if self._given is None:
            self._replanner.plan_in(self._adapted(env))
            if self._changed(env, fresh) is None:
                return True
            where += ", nor is that of a copy"
        constants: Any = getattr(self.problem.mdp, "constants", None)
        if constants is None or constants.sure:
            raise BadInput(f"{where}: make a new problem")
        warnings.warn(f"{where}, which is wrong where steps depend on it; what was learned is dropped", stacklevel=3)
        constants.renew(env)
        self._replanner.forget()
        return True

    def _changed(self, env: Any, fresh: bool) -> str | None:
        """What is not as it was, where that can be told; environments of a problem are what the problem is."""
        mdp: Any = self.problem.mdp
        if getattr(env.unwrapped, "problem", None) is self.problem or not hasattr(mdp, "changed"):
            return None
        found: str | None = mdp.changed(env, fresh)
        return found

    def _position(self, env: Any, observation: Any) -> Position:
        """Where an environment is."""
        from tensorplan.bridges.problem_env import ProblemEnv

        base, mdp = env.unwrapped, self.problem.mdp
        ours = isinstance(base, ProblemEnv)
        if ours and base.problem is self.problem:
            return Position(base.state, base.stage, base.steps)
        if hasattr(mdp, "capture"):
            clock, horizon = _clock(env), self.problem.horizon
            stage = None if clock is None or horizon is None else clock % horizon
            return Position(mdp.capture(env, observation), stage, clock)
        if ours:
            return Position(base.state, base.stage, base.steps)
        raise BadInput(f"problem {self.problem.name!r} cannot read the state of {env}: make the problem with from_gym")

    def _adapted(self, env: Any) -> Problem:
        from tensorplan.problems.gym.convert import from_gym

        if "features" not in self._options:
            raise BadInput(f"to plan in {env} an agent needs features, as in PlannerAgent(planner, features='poly2')")
        return from_gym(env, **self._options)

    def _seen(self, observation: Any) -> Position:
        """The position that an observation shows."""
        problem = self.problem
        if not isinstance(problem.mdp, TabularMDP):
            raise BadInput(
                f"an observation of problem {problem.name!r} is not its state: act takes the environment itself"
            )
        if not isinstance(observation, int | np.integer) or isinstance(observation, bool):
            raise BadInput(
                f"act takes a Gymnasium environment, or the number of a state of problem {problem.name!r}, "
                f"got {observation!r}"
            )
        state = int(observation)
        stage = problem.mdp.stage_of(state)
        return Position(state, stage if problem.mdp.layered else None)


def _is_env(thing: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")  # there are no environments before it is imported
    return gymnasium is not None and isinstance(thing, gymnasium.Env)


def _clock(env: Any) -> int | None:
    """Steps since the reset, where a wrapper (TimeLimit) or the environment counts them."""
    from tensorplan.bridges.problem_env import ProblemEnv

    layer = env
    while layer is not env.unwrapped:
        if vars(layer).get("_has_reset") is False:  # OrderEnforcing
            raise BadInput(f"{env} was not reset yet: call reset() before act")
        steps = vars(layer).get("_elapsed_steps")
        if steps is not None:
            return int(steps)
        layer = layer.env
    return layer.steps if isinstance(layer, ProblemEnv) else None
