"""`placet verify`: attacks a running installation as an outsider would, and says row by row what held.

Everything happens in a throw-away conversation, of a throw-away tenant where the database may be written. No call is
ever approved, nothing is killed: what is left is a conversation that has ended, and keys that are revoked.
"""
