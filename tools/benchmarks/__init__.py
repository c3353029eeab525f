"""Measure canonopt and what a user would write instead, and write docs/benchmarks.md.

`measuring` times several ways in balanced order, `parts` has the benchmarks, and `page` writes the
figures, the plots and the page. `rivals` times a whole trial, for docs/comparison.md.
"""
