"""Tests of the learners. oracle.py runs graphs in torch, and graphs.py holds the models that they share."""
