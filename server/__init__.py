"""The server of a run; imported as edgefl.server.

In a checkout this folder lies beside edgefl/, and edgefl/_finder.py finds it there. It has no other name: the same
file imported twice would make two classes of each of its classes.
"""

if __name__ != "edgefl.server":
    raise ImportError(f"this package was imported as {__name__!r}; expected `import edgefl.server`")
