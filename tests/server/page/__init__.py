"""Tests of the page of a run without a browser."""
