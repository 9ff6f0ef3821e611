"""The parts of csrc/generate.py: rows as C parameters, expressions as C++, and a module for each generated file."""
