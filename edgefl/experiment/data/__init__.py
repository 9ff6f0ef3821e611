"""Data sets: readers of the official file formats, found on this machine or downloaded and checked.

`catalog.load` returns a data set by name. Nothing is imported here, so a device, which reads npz alone, starts sooner.
"""
