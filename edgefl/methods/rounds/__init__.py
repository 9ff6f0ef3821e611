"""The parts of a round that simulation, server and device share: messages, metrics, participation, and state files."""
