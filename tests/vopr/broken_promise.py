"""The error that a simulation ends with once a promise of a federation is broken."""

from __future__ import annotations


class BrokenPromiseError(Exception):
    """Something has happened that must never happen."""
