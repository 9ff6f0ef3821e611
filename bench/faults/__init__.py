"""Real processes on loopback that die, stall, meet a full disk or a stranger, and what their run ends with."""
