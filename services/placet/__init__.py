"""The front door: the `placet` command and the embedded footing.

Owns nothing. It is the one place that may wire all services together, because it starts them; it adds no behaviour of
its own. Everything about conversations, approvals and keys goes through the gateway's HTTP API.
"""
