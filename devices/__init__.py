"""Everything about devices: measuring, recording, replaying and emulating them. Knows nothing of optimization."""
