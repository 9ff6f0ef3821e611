"""Tests of the protocol, and the conversation that they share."""
