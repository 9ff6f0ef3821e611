"""The simulation of one federation by edgefl, PyTorch and other simulators, each in a process of its own."""
