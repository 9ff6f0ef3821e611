"""Experiments as a library: prepared, run, and what came of them as figures, tables and a picture. No options of a
command line, and nothing that prints by itself.
"""
