"""Reading ONNX files: inference graphs of operations that edgefl has become a Graph with its weights, without torch.

A file is read in three steps. onnx_content.py takes the bytes apart within bounds. graph_reading.py walks the nodes and
finds for each node an operation, a constant or the reason why there is neither. graph_assembly.py puts the nodes of the
graph together. onnx_files.py is the only module here that touches a disk. Writing ONNX is edgefl/study/export/.
"""
