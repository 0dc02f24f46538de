"""Scenes of staged calls: a folder of files, calls that are staged, and the commit that people let through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from placet.contracts.canonical import canonical_text, tree_digest
from placet.contracts.ids import workspace_id
from placet.contracts.messages import (
    DiscardWorkspace,
    MergeWorkspace,
    Message,
    Staged,
    StagedCall,
    StagedCallPermitted,
    ToolCall,
    ToolCallFinished,
    WorkspaceBase,
    WorkspaceMerged,
)
from placet.contracts.messages.stage import CommitResult, StagePlan
from placet.contracts.messages.tool_calls import Edited
from placet.contracts.permit import NOBODYS, issue_staged_permit
from placet.contracts.signing import load_signer
from placet.contracts.topology import Destination
from placet.domain.house_tools import COMMIT_SPEC
from tests.builders import a_call, an_envelope, an_event
from tests.support.executor_house import ANSWER_SECONDS, House, Premises
from tests.support.executor_tools import TOOLS

#: The rulebook of the example that works on files.
CODER = Path(__file__).parents[2] / "examples" / "coder" / "rulebook.yaml"
FILE_TOOLS: dict[str, Any] = yaml.safe_load(CODER.read_text())["tools"]


@dataclass
class Scene:
    """One conversation whose calls are staged, on the executor of `house`."""

    house: House
    conversation_id: str = "conversation-1"
    tenant: str = "acme"
    #: What an attempt at a job reads beneath its own.
    base: WorkspaceBase | None = None
    #: Staged calls in order, with what the executor said of each.
    entries: list[tuple[ToolCall, Staged]] = field(default_factory=list)

    @property
    def place(self) -> Premises:
        """What all executors of the test share."""
        return self.house.premises

    @property
    def root(self) -> Path:
        """The folder of the files."""
        return self.place.folder / "files"

    @property
    def workspace_id(self) -> str:
        """The conversation's first workspace."""
        return workspace_id(self.tenant, self.conversation_id)

    def call(self, tool: str, /, **arguments: Any) -> ToolCall:
        """Return a call of the conversation."""
        digest = self.place.catalog[tool].schema_digest
        ids = {"tenant": self.tenant, "conversation_id": self.conversation_id}
        return a_call(tool=tool, schema_digest=digest, arguments=arguments, base=self.base, **ids)

    async def run(self, tool: str, /, **arguments: Any) -> ToolCallFinished:
        """Run a call at once."""
        await self.house.deliver(self.place.permitted(self.call(tool, **arguments)))
        return await self.finished()

    async def finished(self) -> ToolCallFinished:
        """Return the next answer."""
        answer = await self.house.answer()
        assert isinstance(answer, ToolCallFinished), answer
        return answer

    async def try_to_stage(self, tool: str, /, *, plan: StagePlan | None = None, **arguments: Any) -> ToolCallFinished:
        """Stage a call; return its answer, whatever it is."""
        call = self.call(tool, **arguments)
        await self.house.deliver(self.place.permitted(call, mode="stage", plan=plan or StagePlan()))
        answer = await self.finished()
        if answer.staged:
            self.entries.append((call, answer.staged))
        return answer

    async def stage(self, tool: str, /, *, plan: StagePlan | None = None, **arguments: Any) -> Staged:
        """Stage a call."""
        answer = await self.try_to_stage(tool, plan=plan, **arguments)
        assert "staged" == answer.kind, answer.error
        assert answer.staged is not None
        return answer.staged

    def commit(self, *kept: int, digest: str | None = None, edited: bool = False, **changes: Any) -> ToolCall:
        """Return the commit of entries by their places from 0, all where none is named."""
        chosen = [self.entries[place] for place in kept] or self.entries
        arguments = self.arguments(chosen, digest)
        proposed = canonical_text(self.arguments(self.entries, None))
        edit = Edited(person="person:ada", proposed=proposed, proposed_digest="0" * 64) if edited else None
        ids = {"tenant": self.tenant, "conversation_id": self.conversation_id}
        spec = {"tool": COMMIT_SPEC.name, "schema_digest": COMMIT_SPEC.schema_digest}
        return a_call(**(ids | spec | {"arguments": arguments, "edited": edit} | changes))

    def arguments(self, chosen: Sequence[tuple[ToolCall, Staged]], digest: str | None) -> dict[str, Any]:
        """Return the arguments of a commit."""
        tree = tree_digest([(call.call_id, staged.digest) for call, staged in chosen])
        ids = [call.call_id for call, _ in chosen]
        return {"workspace_id": self.workspace_id, "tree_digest": digest or tree, "entries": ids}

    def released(self, commit: ToolCall, *places: int, on_failure: str = "stop", **changes: Any) -> list[Any]:
        """Return the permits of staged calls by their places from 0, as approval sends them with the commit's."""
        signer = load_signer(self.place.keys, "approval")
        found, after = [], commit.call_id
        for call, _ in (self.entries[place] for place in places):
            pool = changes.get("pool", "default")
            staged = StagedCall(
                call_id=call.call_id,
                tool=call.tool,
                pool=pool,
                digest=call.digest,
                requester=call.requester,
                message_id=call.message_id,
                on_failure=on_failure,
            )
            issued = {"now": changes.get("at", self.house_now()), "lifetime_seconds": 300, "reference": "approval-1"}
            consent = changes.get("consent", NOBODYS)
            permit = issue_staged_permit(signer, staged, commit=commit, after=after, consent=consent, **issued)
            ids = {"tenant": call.tenant, "call_id": call.call_id, "conversation_id": call.conversation_id}
            found.append(StagedCallPermitted(**ids, pool=pool, workspace_id=self.workspace_id, permit=permit))
            after = call.call_id
        return found

    def house_now(self) -> Any:
        """Return the time by which permits are signed."""
        return self.place.sql("SELECT now()")[0][0]

    async def committed(self, call: ToolCall) -> tuple[str, CommitResult | None, str]:
        """Commit; return kind, result and error of the answer."""
        await self.house.deliver(self.place.permitted(call, mode="commit", issuer="approval"))
        return told(await self.finished())

    async def command(self, message: Message) -> None:
        """Let executors do what concerns workspaces."""
        event = an_event(message)
        where = Destination("", "workspaces.commands")
        await self.house.bus.publish(where, an_envelope(event), message_id=event.id, mandatory=True)

    async def merged(self, into: str = "job", tenant: str | None = None) -> WorkspaceMerged:
        """Move the entries into the workspace of a job; return what jobs is told."""
        ids = {"tenant": tenant or self.tenant, "conversation_id": self.conversation_id, "into": into}
        await self.command(MergeWorkspace(**ids, job_id="job-1", attempt_id=self.conversation_id))
        async with asyncio.timeout(ANSWER_SECONDS):
            told = (await self.house.merged.get()).message
        assert isinstance(told, WorkspaceMerged)
        return told

    async def discard(self, *places: int, by: str = "") -> None:
        """Let executors discard entries by their places from 0, all where none is named."""
        ids = {"tenant": self.tenant, "conversation_id": self.conversation_id, "workspace_id": self.workspace_id}
        named = [self.entries[place][0].call_id for place in places]
        await self.command(DiscardWorkspace(**ids, by=by, entries=named))

    def state(self, number: int = 1) -> str:
        """Return the state of the conversation's n-th workspace."""
        found = workspace_id(self.tenant, self.conversation_id, number)
        rows = self.place.sql("SELECT state FROM executor.workspaces WHERE workspace_id = :id", id=found)
        return str(rows[0].state) if rows else ""

    def files(self) -> dict[str, str]:
        """Return what is really in the folder, by path, whatever its name."""
        found = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.root)): path.read_text() for path in found}


def told(answer: ToolCallFinished) -> tuple[str, CommitResult | None, str]:
    """Return what a commit's answer says: kind, result, error."""
    result = CommitResult.model_validate(answer.data) if answer.data is not None else None
    return answer.kind, result, answer.error


def outcomes(result: CommitResult | None) -> list[str]:
    """Return what became of the entries of a commit, in order."""
    assert result is not None
    return [entry.outcome for entry in result.entries]


def file_rulebook(place: Premises, **tools: Any) -> None:
    """Let the executors of a place have the tools for files beside their usual ones."""
    place.rulebook.write_text(json.dumps({"version": 1, "tools": {**TOOLS, **FILE_TOOLS, **tools}}))
    (place.folder / "files").mkdir(exist_ok=True)
