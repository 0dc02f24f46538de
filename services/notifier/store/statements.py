"""The notifier's SQL statements. Built once: building one costs more than running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.notifier.cards import DOUBT
from placet.notifier.states import State
from placet.notifier.tables import CROWDED_ROWS, DELIVERIES, LATE_ROWS, PACES, UNTOLD_ROWS
from placet.runtime.sql import records

_TIME = sa.TIMESTAMP(timezone=True)
#: Columns that a delivery brings, with their types.
COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            "delivery_id",
            "tenant",
            "approval_id",
            "call_id",
            "channel",
            "recipient",
            "person",
            "state",
            "error",
            "topic",
            "joint",
        ),
        sa.Text,
    ),
    **dict.fromkeys(("revision", "sent_revision", "version", "sent_version", "attempt", "fence", "rank"), sa.Integer),
    **dict.fromkeys(("pending", "urgent", "alerted"), sa.Boolean),
    "card": pg.JSONB,
    "reference": pg.JSONB,
    "due_at": _TIME,
    "tell_by": _TIME,
}
#: What news and operators change. Claims and settlements have the rest.
_CHANGED = (
    *("state", "pending", "urgent", "alerted", "revision", "version", "card", "attempt", "due_at", "tell_by", "error"),
    "joint",
)
_SHOWN = ("sent_revision", "sent_version")
_SETTLED = ("state", "sent_revision", "sent_version", "reference", "attempt", "due_at", "error")


def _is(state: State) -> sa.ColumnElement[bool]:
    return DELIVERIES.c.state == sa.literal_column(f"'{state}'")


def kind_of(channel: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """Return what stands before the colon in a channel's name."""
    return sa.func.split_part(channel, sa.literal_column("':'"), sa.literal_column("1"), type_=sa.Text)


def _add() -> sa.Insert:
    added, now = records("added", COLUMNS), sa.bindparam("now", type_=_TIME)
    values: dict[str, sa.ColumnElement[Any]] = {**{name: added.c[name] for name in COLUMNS}, "updated_at": now}
    source = sa.select(*values.values()).order_by(added.c.delivery_id)
    return (
        pg.insert(DELIVERIES)
        .from_select(list(values), source)
        .on_conflict_do_nothing()
        .returning(DELIVERIES.c.delivery_id)
    )


def _locked(column: str) -> sa.Select[Any]:
    """Lock deliveries of calls that this transaction has taken."""
    wanted, taken = (
        DELIVERIES.c[name] == sa.any_(sa.bindparam(given, type_=pg.ARRAY(sa.Text)))
        for name, given in ((column, "ids"), ("call_id", "taken"))
    )
    return sa.select(DELIVERIES).where(wanted, taken).order_by(DELIVERIES.c.delivery_id).with_for_update()


def _load() -> sa.Select[Any]:
    return sa.select(DELIVERIES).where(
        DELIVERIES.c.delivery_id == sa.any_(sa.bindparam("ids", type_=pg.ARRAY(sa.Text)))
    )


def _have_cards() -> sa.Select[Any]:
    of = [
        DELIVERIES.c[name] == sa.any_(sa.bindparam(f"{name}s", type_=pg.ARRAY(sa.Text)))
        for name in ("approval_id", "call_id")
    ]
    return sa.select(sa.literal(1)).where(sa.or_(*of)).limit(1)


def _update(parameter: str, names: tuple[str, ...], *guards: str) -> sa.Update:
    """Write these columns of deliveries that come as JSON, where the guarding columns are still the same."""
    brought = records(parameter, {name: COLUMNS[name] for name in ("delivery_id", *guards, *names)})
    same = [DELIVERIES.c[name] == brought.c[name] for name in ("delivery_id", *guards)]
    values: dict[str, Any] = {name: brought.c[name] for name in names}
    return sa.update(DELIVERIES).where(*same).values(**values, updated_at=sa.func.now())


def _unleased() -> sa.ColumnElement[bool]:
    return sa.or_(DELIVERIES.c.lease_until.is_(None), DELIVERIES.c.lease_until < sa.func.now())


def _claimable() -> sa.Select[Any]:
    """Find due deliveries of free channels and lock them: the longest due first, of these the oldest approvals."""
    kinds = sa.bindparam("kinds", type_=pg.ARRAY(sa.Text))
    kind = kind_of(DELIVERIES.c.channel)
    known = sa.bindparam("known", type_=sa.Boolean)
    ours = sa.case((known, kind == sa.any_(kinds)), else_=kind != sa.all_(kinds))
    pausing = (
        sa.select(sa.literal_column("1"))
        .select_from(PACES)
        .where(
            PACES.c.tenant.in_([DELIVERIES.c.tenant, sa.literal_column("''")]),
            PACES.c.channel == DELIVERIES.c.channel,
            PACES.c.free_at > sa.func.now(),
        )
        .correlate(DELIVERIES)
        .exists()
    )
    # As its tenant has the place, and as all have it.
    blank = sa.literal_column("' '", sa.Text)
    everybodys = blank.concat(DELIVERIES.c.channel).concat(blank).concat(DELIVERIES.c.recipient)
    busy = sa.all_(sa.bindparam("busy", type_=pg.ARRAY(sa.Text)))
    free = sa.and_(everybodys != busy, DELIVERIES.c.tenant.concat(everybodys) != busy)
    return (
        sa.select(DELIVERIES)
        .where(_is(State.DUE), DELIVERIES.c.due_at <= sa.func.now(), _unleased(), ours, free, sa.not_(pausing))
        .order_by(DELIVERIES.c.due_at, DELIVERIES.c.approval_id, DELIVERIES.c.delivery_id)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True)
    )


def _company() -> sa.Select[Any]:
    """Lock what waits at addresses for its first mail, due or not, and what was tried in one of these mails."""
    places = _places()
    joint = DELIVERIES.c.joint == sa.any_(sa.bindparam("joints", type_=pg.ARRAY(sa.Text)))
    never_shown = DELIVERIES.c.sent_version == sa.literal_column("0")
    return (
        sa.select(DELIVERIES)
        .join_from(places, DELIVERIES, _at(places))
        .where(_is(State.DUE), _unleased(), never_shown, sa.not_(DELIVERIES.c.urgent))
        .where(sa.or_(DELIVERIES.c.fence == sa.literal_column("0"), joint))
        .order_by(DELIVERIES.c.due_at, DELIVERIES.c.approval_id, DELIVERIES.c.delivery_id)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(of=DELIVERIES, skip_locked=True)
    )


def _claim() -> sa.Update:
    ids = sa.bindparam("ids", type_=pg.ARRAY(sa.Text))
    lease = sa.bindparam("lease", type_=sa.Interval)
    known = sa.func.coalesce(DELIVERIES.c.reference, sa.literal({}, pg.JSONB))
    return (
        sa.update(DELIVERIES)
        .where(DELIVERIES.c.delivery_id == sa.any_(ids))
        .values(
            lease_until=sa.func.now() + lease,
            fence=DELIVERIES.c.fence + 1,
            attempt=DELIVERIES.c.attempt + 1,
            reference=known.concat(sa.literal({DOUBT: "yes"}, pg.JSONB)),
        )
    )


def _pause() -> sa.Insert:
    brought = records("paces", {"tenant": sa.Text, "channel": sa.Text, "free_at": _TIME})
    new = pg.insert(PACES).from_select(
        ["tenant", "channel", "free_at"], sa.select(brought).order_by(brought.c.tenant, brought.c.channel)
    )
    later = sa.func.greatest(PACES.c.free_at, new.excluded.free_at)
    return new.on_conflict_do_update(index_elements=["tenant", "channel"], set_={"free_at": later})


def _places() -> sa.TableValuedAlias:
    return records("places", dict.fromkeys(("tenant", "channel", "recipient"), sa.Text))


def _at(places: sa.TableValuedAlias) -> sa.ColumnElement[bool]:
    """Tell whether a delivery waits at one of the addresses; the index of waiting cards knows."""
    same = [DELIVERIES.c[name] == places.c[name] for name in ("tenant", "channel", "recipient")]
    states: list[sa.ColumnElement[Any]] = [
        sa.literal_column(f"'{state}'") for state in (State.DUE, State.KEPT, State.SENT)
    ]
    return sa.and_(*same, DELIVERIES.c.pending, DELIVERIES.c.state.in_(states))


def _place_key(places: sa.TableValuedAlias) -> sa.ColumnElement[Any]:
    name = sa.func.concat_ws(sa.literal_column("chr(31)"), places.c.tenant, places.c.channel, places.c.recipient)
    return sa.func.hashtextextended(name, sa.literal_column("0"))


def _queue_up() -> sa.Select[Any]:
    """Let one transaction at a time count what waits at an address. For who has locked no delivery yet."""
    places = _places()
    ordered = sa.select(_place_key(places).label("key")).order_by("key").subquery()
    return sa.select(sa.func.pg_advisory_xact_lock(ordered.c.key))


def _try_places() -> sa.Select[Any]:
    """Take those addresses that are free to be counted, without waiting: for who has locked deliveries."""
    places = _places()
    return sa.select(places.c.tenant, places.c.channel, places.c.recipient).where(
        sa.func.pg_try_advisory_xact_lock(_place_key(places))
    )


def _shown() -> sa.Select[Any]:
    """Count by topic what is shown at addresses, or is being sent there, while its approval waits."""
    places = _places()
    columns = (DELIVERIES.c.tenant, DELIVERIES.c.channel, DELIVERIES.c.recipient, DELIVERIES.c.topic)
    return (
        sa.select(*columns, sa.func.count().label("cards"))
        .join_from(places, DELIVERIES, _at(places))
        .where(DELIVERIES.c.fence > sa.literal_column("0"), sa.not_(_is(State.KEPT)))
        .group_by(*columns)
    )


def _crowded() -> sa.Select[Any]:
    """Find addresses where cards are kept back, or where a card says that some are."""
    return (
        sa.select(DELIVERIES.c.tenant, DELIVERIES.c.channel, DELIVERIES.c.recipient)
        .where(sa.text(CROWDED_ROWS))
        .distinct()
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


def _waiting() -> sa.Select[Any]:
    """Find what waits at one address."""
    places = _places()
    return sa.select(DELIVERIES).join_from(places, DELIVERIES, _at(places))


def _free() -> sa.Select[Any]:
    """Lock what waits at one address, but for what others have locked."""
    places = _places()
    waiting = sa.select(DELIVERIES.c.delivery_id).join_from(places, DELIVERIES, _at(places))
    return waiting.with_for_update(of=DELIVERIES, skip_locked=True)


def _untold() -> sa.Select[Any]:
    """Find pending approvals that may be known to nobody: a card was given up, waits too long, or would come too late.

    A card that is shown, or is kept back and not too late yet, is looked at for its own sake.
    """
    other = DELIVERIES.alias("other")
    hopeful = sa.or_(
        other.c.state == sa.literal_column(f"'{State.SENT}'"),
        sa.and_(other.c.state == sa.literal_column(f"'{State.KEPT}'"), other.c.tell_by.is_not(None)),
    )
    hope = sa.exists().where(other.c.approval_id == DELIVERIES.c.approval_id, hopeful)
    late, comes_late = DELIVERIES.c.tell_by <= sa.func.now(), DELIVERIES.c.due_at >= DELIVERIES.c.tell_by
    found = sa.union(
        sa.select(DELIVERIES.c.approval_id).where(sa.text(UNTOLD_ROWS), sa.not_(hope)),
        sa.select(DELIVERIES.c.approval_id).where(sa.text(LATE_ROWS), late),
        sa.select(DELIVERIES.c.approval_id).where(sa.text(LATE_ROWS), _is(State.DUE), comes_late),
    ).subquery()
    return sa.select(found.c.approval_id).limit(sa.bindparam("most", type_=sa.Integer))


def _pace() -> sa.Insert:
    """Return until when channels are spoken for, and keep anybody else from speaking for them meanwhile."""
    brought = records("paces", {"tenant": sa.Text, "channel": sa.Text})
    rested = sa.func.now() - sa.cast(sa.literal_column("'1 minute'"), sa.Interval)
    new = pg.insert(PACES).from_select(
        ["tenant", "channel", "free_at"],
        sa.select(brought.c.tenant, brought.c.channel, rested).order_by(brought.c.tenant, brought.c.channel),
    )
    kept = new.on_conflict_do_update(index_elements=["tenant", "channel"], set_={"free_at": PACES.c.free_at})
    return kept.returning(PACES.c.tenant, PACES.c.channel, PACES.c.free_at)


ADD = _add()
HAVE_CARDS = _have_cards()
LOCK_APPROVALS = _locked("approval_id")
LOCK_CALLS = _locked("call_id")
LOCK = _locked("delivery_id")
LOAD = _load()
CHANGE = _update("changed", _CHANGED)
NOTE = _update("noted", (*_CHANGED, *_SHOWN, "reference"))
CLAIMABLE = _claimable()
COMPANY = _company()
JOIN = _update("joined", ("joint",))
CLAIM = _claim()
SETTLE = _update("settled", _SETTLED, "fence").values(lease_until=None)
PAUSE = _pause()
PACE = _pace()
QUEUE_UP = _queue_up()
TRY_PLACES = _try_places()
SHOWN = _shown()
CROWDED = _crowded()
WAITING = _waiting()
FREE = _free()
UNTOLD = _untold()
