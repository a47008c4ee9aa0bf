"""How long tests wait for what has to come: so long that only a hang is waited for in vain."""

PATIENCE_SECONDS = 600
