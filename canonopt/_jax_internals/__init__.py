"""Everything private in JAX and Equinox that canonopt reads, behind one function for each fact.

No other code reads private names of these libraries. Each docstring lists the private names that
its function relies on. If JAX has moved a name, the function falls back as its docstring says,
or counting raises `UnsupportedVersionError`; a count is never silently zero.
`tests/test_jax_internals.py` removes each name in turn. Other code imports the module it needs.
Counting must not import `equinox_errors`, because that imports Equinox, and Equinox imports Pallas.
Importing Pallas changes what JAX compares in each call.
"""
