"""Small mistakes put into the sources, one at a time, to see whether the tests notice.

mutant.py says what a mutant is, and the other modules list mutants: kernels.py, learning.py, payloads.py, methods.py,
rounds.py, seams.py, nodes.py and more. Mutants of C++ go into one build behind a switch (switch.py). `python -m tests
mutants` runs them (command.py).
"""
