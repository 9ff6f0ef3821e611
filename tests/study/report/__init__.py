"""Tests of the report: its parts, and the page."""
