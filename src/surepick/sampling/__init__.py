"""Samplers: turn designs into pulls.

Reading order: `base` (the protocol), `schedules` (when a sampler looks at results), `tracking` (a design into pulls),
`choosers` (arm by arm), `alternatives` (leader against rivals), `phases` (a design for the candidates left), `fixed`
(pulls that depend on no reward).
"""
