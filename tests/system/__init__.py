"""Tests of edgefl/system/."""
