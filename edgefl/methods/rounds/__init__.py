"""The parts of a round that simulation, server and device share: messages, metrics, participation, and
states as files.
"""
