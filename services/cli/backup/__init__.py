"""`placet backup` and `placet restore`: all of the database in a folder, and back without doing anything twice.

What ran after a backup is not in it. So a restore does not go on with what was under way then: calls that people are
asked about wait for them as before, every other unfinished call is said to be `unknown`, and permits, decisions and
messages from before the restore count no more (see `settling`).
"""
