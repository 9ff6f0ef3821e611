"""Models as values: typed operations, the Graph they form, its parameters, and its JSON. No torch, no kernels.

Building (models), resizing heads (heads) and files (files, the only one that touches a disk) are modules of their own.
"""

from edgefl.models.graph.graph import INPUT, Graph, Model, Node, Params

__all__ = ["INPUT", "Graph", "Model", "Node", "Params"]
