r"""The abstract game behind the lower bound (Weisz et al. 2022, section 4.1), and players for it.

The rules.  W = {-1, 1}^p, and diff counts the components in which two weights differ; close means diff < p/4.  The
secret w* has a distance between p/4 and 3p/4 from w_0 = (1, .., 1).  A sequence (w_1, .., w_k) is legal, in W^{∘k}, if
diff(w_{i-1}, w_i) >= p/4 for all i.  With g(x) = 1 - x/p + x(x-1)/(2p²),

    f(w_1, .., w_k) = Π_{i <= k} g(diff(w_{i-1}, w_i)) · g(diff(w_k, w*)),        f(()) = g(diff(w_0, w*)).

A query is a legal sequence of length L from 1 to K.  The reply is U = 1[w_{L-1} is close to w*], V = 1[w_L is close to
w*], and Z ~ Bernoulli(f) if V = 1 or L = K, else 0.  Finally the player outputs a legal sequence of 8 weights and
receives f(w_1, .., w_k*), where k* is the first weight close to w*, or 8 if there is none.

The bound.  The best payoff is f(()) >= 11/32, for w_1 = w*.  A sequence without a close weight pays at most (25/32)^9,
and the reply to a query without one is (0, 0, 0), except with probability at most ε = (25/32)^{K+1}.  Few weights are
close to a given one, |W_close| <= 2^p e^{-p/8}, so an expected payoff of f(()) - 0.01 for all w* takes
2^{Ω(min(p, K))} queries: :func:`lower_bound` computes the constants.

The players.  Guessing takes 2^p/|W_close| queries, or half of that in pairs (:mod:`~tensorplan.game.blind`), and for
large K no player takes less than 0.22 of it (:mod:`~tensorplan.game.bound`).  Following the signal Z takes at most
about 2 p² (32/25)^K (:mod:`~tensorplan.game.local`).  So the exponent is min(p, K) up to constants, as in the theorem.

>>> from tensorplan.game import AbstractGame, lower_bound
>>> game = AbstractGame(p=16, K=20, secret=0b0000111100001111)
>>> game.query([0b0111111100001111])
Answer(U=0, V=1, Z=0)
>>> float(game.payoff([0b0000111100001111, 0b1111000011110000] * 4)), float(game.best)
(0.609375, 0.609375)
>>> bound = lower_bound(p=64, K=40)
>>> bound.n, float(bound.forced), bound.exact_n, round(bound.sharp), round(bound.guesses)
(181, 9.05, 3315, 7098, 82086)
"""

from tensorplan.game.blind import Blind
from tensorplan.game.bound import Bound, lower_bound
from tensorplan.game.game import AbstractGame, Answer, Answers, Asking, Hit, Play, Player
from tensorplan.game.local import Local
from tensorplan.game.pinpoint import pinpoint
from tensorplan.game.reduction import GameMDP, Reduction
from tensorplan.game.search import STRATEGIES, Best, Cost, cost

__all__ = [
    "STRATEGIES",
    "AbstractGame",
    "Answer",
    "Answers",
    "Asking",
    "Best",
    "Blind",
    "Bound",
    "Cost",
    "GameMDP",
    "Hit",
    "Local",
    "Play",
    "Player",
    "Reduction",
    "cost",
    "lower_bound",
    "pinpoint",
]
