"""Real processes on loopback that die, stall, meet a full disk or a stranger, and the end of their run."""
