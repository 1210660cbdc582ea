"""Every kind of arm set: rows in memory, in files, on a cluster; spheres, ellipsoids, hypercubes, choices of k.

Reading order: `protocol` (what an algorithm may ask of rows) and `vectors` (of sets that cannot be listed); `finite`,
`files`, `cluster`; `sphere`, `ellipsoid`, `hypercube`, `top_k`; `whitening` and `numbered`, the views of a learner.
"""
