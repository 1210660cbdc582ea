"""The loop: ask, tell, decide.

Reading order: `spec` and `noise_models` (the task), `events` (the log), `blocks` and `state` (what the events add up
to), `learner` (the loop itself), `model` (the check of the model), `reader`, `snapshot`, `estimates` and `result` (the
numbers of the answer), `progress`, `explain` and `assumptions` (its sentences), `identify` (the whole loop in one
call).
"""
