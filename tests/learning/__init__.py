"""Tests of the learners. oracle.py runs graphs in torch; graphs.py holds the models they share."""
