"""Reading ONNX files: inference graphs of operations that edgefl has become a Graph with its weights, without torch.

First, the file onnx_content.py takes the bytes apart within bounds. Then graph_reading.py finds for each node an
operation, a constant, or the reason for a refusal. At the end, graph_assembly.py puts the nodes of the graph together.
Only onnx_files.py touches a disk. The writer of ONNX files is edgefl/study/export/.
"""
