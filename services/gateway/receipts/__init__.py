"""Receipts: all that proves what became of one call, in one file that verifies without Placet."""
