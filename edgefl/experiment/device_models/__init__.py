"""Devices as models of their speed, link, energy and hours, and a clock that runs over counted work. Nothing sleeps,
and nothing here is measured.
"""
