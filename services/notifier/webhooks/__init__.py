"""Webhooks: programs that hear of approvals and calls, as the Standard Webhooks specification says.

A webhook named by a rule (`webhook:crm`) gets that rule's cards, as every channel does. One with `events` hears of
every event of its tenants beside that: each is a row, sent in any order, at least once, with one id over all tries.
"""
