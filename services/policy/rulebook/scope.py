"""Which calls an approval may be about, as far as the rulebook says so by itself: for checks before there is a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from placet.domain.approvers import GROUP, identity_of, person_id, read_approver
from placet.domain.catalog import ToolSpec
from placet.domain.directory import Directory
from placet.policy.rules import Rule

#: What makes a text a pattern.
WILD = "*?["
#: Stands for the name of anybody who is not listed: no name has it.
_ANYBODY = "?"


@dataclass(frozen=True, slots=True)
class Scope:
    """What an approval is checked against: who there is, and the calls it may be about."""

    directory: Directory
    tools: Sequence[ToolSpec]
    agent: str = "*"
    requesters: tuple[str, ...] = ("*",)
    #: Channels that the file declares; None where it declares none.
    channels: Sequence[str] | None = None

    def of(self, rule: Rule) -> Scope:
        """Return the scope of one rule's calls."""
        tools = [spec for spec in self.tools if spec.name in rule.tools]
        return replace(self, tools=tools, agent=rule.agent, requesters=rule.requesters)

    @property
    def known(self) -> dict[str, Any]:
        """What a condition on who may decide finds in every one of these calls, by its variables."""
        found = {} if is_pattern(self.agent) else {"call.agent": self.agent}
        return found | ({"call.tool": self.tools[0].name} if len(self.tools) == 1 else {})

    def owned(self) -> list[str]:
        """Return the agents of these calls that somebody owns, sorted."""
        return sorted(agent for agent in self.directory.owners if fnmatchcase(agent, self.agent))

    def named_askers(self) -> list[str]:
        """Return the ids of the people whom the rule names as requesters, alone or in a group, sorted."""
        found: set[str] = set()
        for requester in self.requesters:
            if not is_pattern(requester):
                found |= self.directory.behind(requester)
        return sorted(found)

    def asks_for_anybody(self) -> bool:
        """Tell whether the calls may be asked for by others than those it names."""
        return any(is_pattern(each) or read_approver(each).kind not in {"person", "group"} for each in self.requesters)

    def askers(self) -> list[str]:
        """Return stable ids of requesters: the people who are listed, and one each who stands for all others."""
        found = {identity_of(name) for name in self.named_askers()}
        for requester in self.requesters:
            if requester.startswith(GROUP):
                continue
            listed = (identity_of(name) for name in self.directory.people)
            found |= {each for each in listed if fnmatchcase(each, requester)}
            stands = (requester.replace("*", _ANYBODY), identity_of(_ANYBODY))
            found |= {each for each in stands if fnmatchcase(each, requester)}
        return sorted(each for each in found if self.directory.is_active(person_id(each) or ""))


def is_pattern(text: str) -> bool:
    """Tell whether a text stands for several."""
    return any(char in text for char in WILD)
