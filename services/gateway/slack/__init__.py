"""Slack's door: buttons and modals come in, over HTTP or by Socket Mode, and become decisions like any other.

Nothing that a request says is believed but its signature (or the socket's own token): who somebody is says the
directory, by team and user; what they saw says the digest; whether they may says the approval service.
"""
