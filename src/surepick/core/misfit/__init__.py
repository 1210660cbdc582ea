"""Misfit: whether rewards follow the features, what does not fit, and how much misfit an answer can bear.

Reading order: `means` (what was measured on each arm); `watch` (evidence against the model, block by block); `slips`
(one reward that no noise explains); `shape` (whether noise looks normal with one level); `report` (what a misfit looks
like); `margin` (misfit of a known size); `replay` (how much of it a verdict bears).
"""
