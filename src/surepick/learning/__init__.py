"""The loop: ask, tell, decide.

Reading order: `spec` and `noise_models` (the task), `events` (the log), `blocks` and `state` (what the events add up
to), `learner` (the loop itself), `model` (the check of the model), `snapshot`, `estimates`, `result` and `explain` (the
answer), `identify` (the whole loop in one call).
"""
