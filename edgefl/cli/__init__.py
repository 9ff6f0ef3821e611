"""The commands of `edgefl`, one file for each command: add_arguments(parser) and run(options). commands.py
lists them.
"""
