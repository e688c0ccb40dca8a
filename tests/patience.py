"""How long tests wait for something that must happen, in seconds: these end what hangs."""

PATIENCE = 900  # to start torch took three minutes with ten programs on two cores
HOUR = 3600  # for programs that do more than start, and servers that a whole module uses
