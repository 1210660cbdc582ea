"""Sampling: designs into pulls.

Reading order: `base` (what a sampler is), `schedules` (when it looks at results), `tracking` (a design into pulls),
`choosers` (arm by arm), `alternatives` (leader against rivals), `phases` (a design for the candidates left), `fixed`
(pulls that depend on no reward).
"""
