"""Workspaces: what is staged in a conversation, shown from the executor's views, proposed and thrown away by people."""
