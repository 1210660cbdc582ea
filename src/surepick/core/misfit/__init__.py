"""Misfit: whether rewards follow the features, which arms do not fit, and how much misfit an answer can bear.

Reading order: `watch` (evidence against the model, block by block, and single rewards that no noise explains); `shape`
(whether noise looks normal with one level); `explain` (the cause of a misfit); `tolerance` (misfit of a known size, and
how much of it a verdict bears).
"""
