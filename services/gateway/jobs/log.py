"""A job's log as clients get it: in the same way as a conversation's."""

from __future__ import annotations

from dataclasses import dataclass

from placet.gateway.conversations.items import Item
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.log import ConversationLog
from placet.gateway.jobs import store

#: Begins the topic of a job; identifiers of conversations have no colon.
_JOB = "job:"


def job_topic(tenant: str, job_id: str) -> Topic:
    """Return what a client of a job follows."""
    return Topic(tenant, f"{_JOB}{job_id}")


@dataclass(frozen=True)
class JobLog(ConversationLog):
    """Reads the log of jobs, and follows it for the clients of this instance."""

    async def read(self, tenant: str, conversation_id: str, after: int, limit: int) -> list[Item]:
        """Return the lines after the number `after`, oldest first, of the job that a topic names."""
        async with self.database.single() as connection:
            return await store.read_log(connection, tenant, conversation_id.removeprefix(_JOB), after, limit)
