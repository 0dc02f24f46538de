"""How every service runs: the bus, the consumer, outbox and inbox, the database, settings, start and stop."""
