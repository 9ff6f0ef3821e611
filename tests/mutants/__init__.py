"""Small mistakes put into the sources, one at a time, to see whether the tests notice.

`python -m tests mutants` runs them (command.py). mutant.py says what a mutant is. Operators make most mutants from the
sources of today: python_operators.py, cpp_operators.py, and generated.py, which takes a sample. noticing.py knows the
tests that should notice. The mutants that no operator makes were written by hand: coordinates, durability, kernels,
mathematics, order, streams, studies and texts. Mutants of C++ go into one build behind a switch (switch.py).
found.jsonl has samples of 135 mutants of 15 files of Python and 24 mutants of 6 files of C++, with a verdict on each
mutant that lived.
"""
