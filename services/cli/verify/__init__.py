"""`placet verify`: attacks a running installation as an outsider would, and says row by row what held.

Everything happens in a throw-away conversation, of a throw-away tenant where the database may be written. No call is
ever approved, and nothing is killed but by a command of the user's own: what is left are conversations that have ended,
and keys that are revoked.
"""
