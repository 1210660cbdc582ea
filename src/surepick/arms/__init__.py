"""Sets of arms: rows in memory, in files or on a cluster; spheres, ellipsoids, hypercubes, choices of k.

Reading order: `base` (what an algorithm may ask of rows, and of vectors that cannot be listed); `finite`, `mapped`,
`dask`; `sphere`, `ellipsoid`, `hypercube`, `top_k`; `views` and `numbered` (how a learner sees its arms); `registry`
(how logs and the command line spell a set); `tables` (from a spreadsheet to arms).
"""
