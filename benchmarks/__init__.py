"""Benchmarks: modules here with a `main()`, and experiments `<benchmark>-*.toml`; `python -m benchmarks` runs them.

A module prints ratios measured in one run on one BLAS thread: seconds do not travel between machines, ratios do. An
experiment is run in full by the same code as `surepick bench run`, with its report in out/<benchmark>/.
"""
