"""Facts about CPython, and about who wrote a piece of code.

CPython does not promise these facts, so they may differ between versions: instruction names and
the layout of closures in bytecode, how descriptors are stored in a class, how `warnings` applies
its filters, where library files are installed, and how IPython names its cells. Also here are weak
mappings by object identity, which rely on when an object gives up its id. All other modules of
canonopt get such facts from this package.
"""
