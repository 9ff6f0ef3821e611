"""Secure aggregation: random rounds, random orders of messages, and the time of a device beside Flower's functions."""
