"""The simulation of one federation by edgefl and by a bare loop in PyTorch, each in a process of its own."""
