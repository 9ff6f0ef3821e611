"""Models as values: typed operations, the Graph that they form, its parameters, and its JSON.

It uses no torch. Other modules build models (architectures.py), resize heads (heads.py), quantize frozen weights
(quantization.py) and read and write files (model_files.py), which is the only module here that touches a disk.
"""

from edgefl.models.graph.graph import INPUT, Graph, Model, Node, Params

__all__ = ["INPUT", "Graph", "Model", "Node", "Params"]
