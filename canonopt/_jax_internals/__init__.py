"""The modules that read private names of JAX and Equinox, with one function for each fact.

All other modules get these facts from here. Each docstring lists the private names that its
function relies on. If JAX has moved a name, the function falls back as its docstring says, or
raises `UnsupportedVersionError`; a count of traces is never silently zero.
`tests/test_jax_internals.py` removes each name in turn. Code that counts traces must not import
`equinox_errors`: Equinox imports Pallas, and Pallas changes what JAX compares in each call.
"""
