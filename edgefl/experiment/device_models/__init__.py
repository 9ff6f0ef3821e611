"""Devices as models of their speed, link, energy and hours, and a clock that advances by counted work. Nothing sleeps,
and nothing here is measured.
"""
