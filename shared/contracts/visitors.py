"""How the end users of conversations are named, so that no name says that somebody is anybody else."""

from __future__ import annotations

import re

#: Owners of keys and visitors: no colon, so that nobody can be named into another kind of person.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$"
#: What approval rules call groups of people: no visitor is named so.
RESERVED = frozenset({"requester", "operators"})
_NAME = re.compile(NAME_PATTERN)
#: What the id of a visitor begins with whom nobody has named, and what rules call every visitor.
ANONYMOUS = "visitor:"
#: Stands before who holds no token of a conversation, among those who may have asked in it.
ANSWERED = "~"


def visitor_id(visitor: str | None, conversation_id: str) -> str:
    """Return the stable id of a conversation's end user: as its opener named them, else one per conversation."""
    return visitor or f"{ANONYMOUS}{conversation_id}"


def rule_name(identity: str) -> str:
    """Return what rules call somebody: `visitor:v77` for the visitor named `v77`, anybody else by their stable id.

    No name has a colon, so a name is never taken for an id, and what is called so already stays as it is.
    """
    return identity if ":" in identity else f"{ANONYMOUS}{identity}"


def checked_visitor(visitor: str) -> str:
    """Return `visitor`; raise ValueError for a name that rules use for somebody else."""
    if visitor in RESERVED or not _NAME.fullmatch(visitor):
        raise ValueError("must be letters, digits and . _ @ + -, at most 100, and no word that approval rules use")
    return visitor


def is_visitor_id(author_id: str, conversation_id: str) -> bool:
    """Tell whether the end user of a conversation may have this id: a name, or the conversation's own anonymous id."""
    if author_id == visitor_id(None, conversation_id):
        return True
    return author_id not in RESERVED and _NAME.fullmatch(author_id) is not None
