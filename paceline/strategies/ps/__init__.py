"""Parameter servers: the workers' side, the servers' side, and the messages between them."""
