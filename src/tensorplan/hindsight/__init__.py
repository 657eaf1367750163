"""Bounds in hindsight: what a policy can lose at most, for any policy and any value function, by simulation alone.

For any function V with V(END) = 0 let l_a(V; s) = E[R + γ V(S') | s, a] - V(s), the temporal difference.  Then

    v^π(s0) = V(s0) + E Σ_t γ^t l_{A_t}(V; S_t)          for every policy π,
    v*(s0) <= V(s0) + E_ω max Σ_t γ^t l_{a_t}(V; s_t(ω)),

where the maximum is over sequences of actions, and one noise ω_t moves all states of time t: the optimal policy is one
way to choose the actions, and does not know the noise (information relaxation: Rogers 2002; Brown, Smith and Sun 2010).
A bad V makes the bound loose, never false.
"""
