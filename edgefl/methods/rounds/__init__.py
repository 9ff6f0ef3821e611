"""What simulation, server and device share of a round: messages, metrics, who took part, and states as files."""
