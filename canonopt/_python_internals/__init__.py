"""Facts about CPython, and about who wrote a piece of code.

Nobody promises these facts, so they may differ between versions: instruction names and the
layout of closures in bytecode, how descriptors are stored in a class, where library files are
installed, and how IPython names its cells. Also here are weak mappings by object identity, which
rely on when Python may reuse an id. Other modules of canonopt get most such facts from here.
"""
