"""Small mistakes put into the sources, one at a time, to see whether the tests notice.

mutant.py says what one is; kernels.py, learning.py, payloads.py, methods.py, rounds.py, seams.py and nodes.py list
them. Those of C++ go into one build behind a switch (switch.py). `python -m bench mutants` runs them (command.py).
"""
