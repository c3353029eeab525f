"""Everything private in JAX and Equinox that canonopt reads, behind one function for each fact.

Nothing private of these libraries is read anywhere else. Each docstring names the private names
that its function relies on. If JAX has moved one, the function falls back as its docstring says,
or counting raises `UnsupportedVersionError`; a count is never silently zero.
`tests/test_jax_internals.py` removes each name in turn. Other rooms import the modules they need.
Counting must not import `equinox_errors`: Equinox imports Pallas, which changes what JAX compares
of each call.
"""
