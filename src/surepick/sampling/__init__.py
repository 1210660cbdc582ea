"""Sampling: designs into pulls.

Reading order: `protocol` (what a sampler is), `schedules` (when it looks), `tracking` (a design into pulls),
`choosers` (arm by arm), `alternatives` (what separates two), `phases`, `fixed` (no reward decides), `games`, `tangent`
(the sphere). `checks` is for the numbers among options.
"""
