"""Redis as several servers: a primary with its replicas, and one address that leads to whichever is the primary."""
