"""The loop: ask, tell, decide.

Reading order: `ledger` (who asked for what), `learner` (the loop itself), `noise` (is `noise_std` believable?),
`history`, `estimates` and `result` (what is reported), `identify` (all of it in one call).
"""
