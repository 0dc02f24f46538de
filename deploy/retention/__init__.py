"""How long what is kept: the rule of every table, what deletes old rows, and what erases a person.

Run beside the database, with the rights of the owner of the schemas: services may not delete evidence.
"""

#: Longest time that anything is kept, in days; 0 is for ever.
DAYS_MAX = 36_500
