"""The audit chain: the gateway reads everybody's history, seals it behind the calls, and signs what it saw."""
