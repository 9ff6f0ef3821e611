"""The server of a run, which is imported as edgefl.server.

In a checkout this folder lies next to edgefl/, and edgefl/_finder.py finds it there. It has no other name, because a
file that is imported under two names would define each of its classes twice.
"""

if __name__ != "edgefl.server":
    raise ImportError(f"this package was imported as {__name__!r}; expected `import edgefl.server`")
