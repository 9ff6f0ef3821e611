"""The lowering of a graph to a list of kernel calls over one arena, as values that a learner will run. Nothing runs
here.
"""
