"""Data sets: readers of the official file formats, found on this machine or downloaded and checked.

`catalog.load` gives one by name. Nothing is imported here: a device reads npz alone, and starts sooner.
"""
