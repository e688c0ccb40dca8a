"""How long tests wait for something that must happen."""

PATIENCE = 180  # seconds: ends a test that hangs, far above what a busy machine needs
