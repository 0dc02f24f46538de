"""Insights: how long people take to decide what, how they decide, and which rules ask more than they need to."""
