"""Benchmarks: every module here with a `main()` is one; `python -m benchmarks` runs them.

A benchmark prints ratios measured in one run on one BLAS thread: seconds do not travel between machines,
ratios do.
"""
