"""The inner loops of the search: plain Python for small searches, compiled for large ones.

state      what they work on: one object of arrays
vectors    operations on vectors, in NumPy
loops      the same for compiled code
basis      the active rows of a node: an orthonormal basis, updated as rows enter and leave
relax      one node: the relaxation and its multipliers, by a dual active-set method
tree       the heap of open nodes; loading a node and storing it
points     feasible points: whether a disjunction holds, the best point, the search for one nearby
branch     which disjunction to branch on, and into what
step       the inner loop: pop, bound, prune, branch
compiled   the same functions as machine code
"""
