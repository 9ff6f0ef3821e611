"""edgefl inside other programs: a file for each program, which needs the extra with the program's name.

The files are flower.py, ray.py and trackers.py. No other room imports them.
"""
