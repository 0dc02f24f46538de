"""The Slack channel against a stub of Slack, with the official SDK: one card, in place, however bad Slack's day is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import SecretStr

from placet.domain.directory import Directory, Person, SlackUser
from placet.notifier.cards import DOUBT, Card, CommentShown
from placet.notifier.channels import Address, ChannelFailed, sharing
from placet.notifier.channels.slack import SlackChannel
from placet.surfaces.card import Argument
from placet.surfaces.slack import Slack, SlackTeam
from tests.support.shown_cards import a_card
from tests.support.slack_server import BOT_TOKEN, TEAM, Fault, Message, SlackServer, slack_server

OPS = Address("slack:#ops", "#ops")
IN_DOUBT = {DOUBT: "yes"}
DIRECTORY = Directory(
    people={
        "ada": Person("ada", slack=(SlackUser("T0OTHER", "U9"), SlackUser(TEAM, "U0ADA"))),
        "eve": Person("eve", slack=(SlackUser("T0OTHER", "U0EVE000"), SlackUser("T0OTHER", "U0BOTH00"))),
        "ben": Person("ben", slack=(SlackUser(TEAM, "U0BOTH00"),)),
    }
)


@dataclass
class Scene:
    """A workspace and the channel that writes to it."""

    slack: SlackServer
    channel: SlackChannel

    async def send(
        self, card: Card, reference: Any = None, *, address: Address = OPS, key: str = "k"
    ) -> dict[str, str]:
        """Show a card; return the reference for its next update."""
        return dict((await self.channel.send(card, address, reference, key=key)).reference)

    @property
    def card(self) -> Message:
        """The one card there is."""
        (found,) = self.slack.cards()
        return found

    def methods(self) -> list[str]:
        """Return which methods were called, in order."""
        return [method for method, _ in self.slack.calls]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """One workspace that serves the tenant acme."""
    team = SlackTeam(team=TEAM, bot_token=SecretStr(BOT_TOKEN), tenants=["acme"], channel="C0FINANCE")
    async with slack_server() as slack:
        settings = Slack(SecretStr(""), SecretStr(""), (team,))
        channel = SlackChannel(settings, f"{slack.url}/api/", lambda: DIRECTORY)
        async with channel.running():
            yield Scene(slack, channel)


async def test_a_card_is_posted_once_and_then_updated_in_place(scene: Scene) -> None:
    """B4: every transition changes the one message; the buttons go with the decision."""
    card = a_card()
    reference = await scene.send(card)
    before = set(scene.card.buttons)
    for changed in (
        replace(card, revision=2, happened="voted"),
        replace(card, revision=3, state="approved", happened="closed", decided_by="person:ada"),
        replace(card, revision=3, state="approved", happened="finished", ended="succeeded"),
    ):
        reference = await scene.send(changed, reference)
    assert (3, set()) == (len(before), set(scene.card.buttons))
    assert ("It ran and succeeded." in scene.card.words, 4) == (True, len(scene.card.versions))
    assert [] == scene.slack.thread_of(scene.card)


@pytest.mark.parametrize(
    ("recipient", "expected"),
    [("#ops", "C0OPS0000"), ("finance", "C0FINANCE"), ("C0OPS0000", "C0OPS0000"), ("", "C0FINANCE")],
)
async def test_a_rule_names_a_place_by_id_or_name(scene: Scene, recipient: str, expected: str) -> None:
    """`slack` alone is the workspace's own channel; a name is looked up once."""
    address = Address(f"slack:{recipient}" if recipient else "slack", recipient)
    for number in range(2):
        await scene.send(a_card(approval_id=f"approval-{number}"), address=address)
    assert {expected} == {card.channel for card in scene.slack.cards()}
    assert scene.methods().count("conversations.list") <= 2


async def test_cards_that_come_at_once_look_a_channel_up_once(scene: Scene) -> None:
    """However many wait when a notifier starts: Slack lists channels some twenty times a minute."""
    cards = [a_card(approval_id=f"approval-{number}") for number in range(5)]
    await asyncio.gather(*(scene.send(each, address=Address("slack:#ops", "#ops")) for each in cards))
    assert 1 == scene.methods().count("conversations.list")


async def test_a_person_is_asked_in_their_direct_messages(scene: Scene) -> None:
    """A user id opens the conversation with them; updates go where the answer said the card is."""
    address = Address("slack:U0ADA000", "U0ADA000")
    reference = await scene.send(a_card(), address=address)
    await scene.send(a_card(revision=2), reference, address=address)
    assert ("D", 2) == (scene.card.channel[0], len(scene.card.versions))


async def test_a_user_of_another_workspace_is_shown_nothing(scene: Scene) -> None:
    """Whose id the directory knows elsewhere alone may be a stranger here; an id that both have is asked here."""
    address = Address("slack:U0EVE000", "U0EVE000")
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card(), address=address)
    await scene.send(a_card(), address=Address("slack:U0BOTH00", "U0BOTH00"))
    opened = [given["users"] for method, given in scene.slack.calls if method == "conversations.open"]
    assert (True, ["U0BOTH00"]) == (failed.value.permanent, opened)


async def test_reminders_and_escalations_stand_in_the_card_s_thread_once(scene: Scene) -> None:
    """B4: people are told anew under the card; the same news tried again is not told again."""
    card = a_card()
    reference = await scene.send(card)
    reminded = replace(card, revision=2, happened="reminded", note="It is still waiting for a decision.")
    once = await scene.send(reminded, reference, key="a")
    await scene.send(reminded, once, key="a")
    await scene.send(replace(reminded, similar=4), once, key="counted anew")
    escalated = replace(card, revision=3, happened="escalated", note="Nobody decided yet.")
    await scene.send(escalated, once, key="b")
    told = [each.versions[0]["text"] for each in scene.slack.thread_of(scene.card)]
    assert [f"It is still waiting for a decision. {card.summary}", "Nobody decided yet."] == told


async def test_who_asked_is_told_what_became_of_it(scene: Scene) -> None:
    """The requester, where the directory knows them in this workspace, is mentioned once when it is over."""
    card = a_card(requested_by="person:ada")
    reference = await scene.send(card)
    over = replace(card, revision=2, state="denied", decided_by="person:grace", decision_reason="<!here> no")
    reference = await scene.send(over, reference)
    await scene.send(replace(over, ended="failed"), reference)
    (told,) = scene.slack.thread_of(scene.card)
    pieces = told.blocks[0]["elements"][0]["elements"]
    assert [{"type": "user", "user_id": "U0ADA"}] == [each for each in pieces if each["type"] == "user"]
    fallback = told.versions[0]["text"]
    assert (True, False) == (fallback.startswith("<@U0ADA> Denied: "), "<!here>" in fallback)


async def test_a_lost_answer_makes_no_second_card(scene: Scene) -> None:
    """Where the post arrived and its answer did not, the next try finds the card and shows the newest on it."""
    scene.slack.fail("chat.postMessage", Fault("lost"))
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card())
    assert (None, False) == (failed.value.retry_after, failed.value.permanent)
    reference = await scene.send(a_card(revision=2), IN_DOUBT)
    assert (scene.card.ts, 2) == (reference["ts"], len(scene.card.versions))


async def test_a_card_that_another_worker_posted_is_found(scene: Scene) -> None:
    """A reference in doubt is a try that nobody saw the end of; other cards are not mistaken for its card."""
    await scene.send(a_card(approval_id="another"))
    first = await scene.send(a_card())
    assert first == await scene.send(a_card(revision=2), IN_DOUBT)
    assert 2 == len(scene.slack.cards())


async def test_a_call_that_never_arrived_is_posted(scene: Scene) -> None:
    """Searching finds nothing, so there is still exactly one card in the end."""
    scene.slack.fail("chat.postMessage", Fault("away"))
    with pytest.raises(ChannelFailed):
        await scene.send(a_card())
    await scene.send(a_card(), IN_DOUBT)
    assert 1 == len(scene.slack.cards())


async def test_without_the_right_to_search_there_is_one_card_per_lost_answer(scene: Scene) -> None:
    """At most 1 + lost answers: an app without the history scopes posts again rather than never."""
    scene.slack.fail("chat.postMessage", Fault("lost"))
    with pytest.raises(ChannelFailed):
        await scene.send(a_card())
    scene.slack.fail("conversations.history", Fault("error", "missing_scope"))
    await scene.send(a_card(), IN_DOUBT)
    assert 2 == len(scene.slack.cards())


@pytest.mark.parametrize(("asked", "waited"), [(7, 7.0), (1e15, 900.0)])
@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update", "conversations.list"])
async def test_a_limit_is_handed_on(scene: Scene, method: str, asked: float, waited: float) -> None:
    """429 says how long to wait, a quarter of an hour at most; the worker waits, and nothing is posted twice."""
    reference = await scene.send(a_card()) if method == "chat.update" else None
    scene.slack.fail(method, Fault("ratelimited", retry_after=asked))
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card(revision=2), reference)
    assert (waited, False) == (failed.value.retry_after, failed.value.permanent)
    await scene.send(a_card(revision=2), reference)
    assert 1 == len(scene.slack.cards())


def test_tenants_share_a_workspace_and_no_other() -> None:
    """What Slack says of one workspace is said to all of its tenants; a tenant without one is alone."""
    teams = [
        SlackTeam(team=team, bot_token=SecretStr(BOT_TOKEN), tenants=tenants)
        for team, tenants in ((TEAM, ["acme", "sister"]), ("T0OTHER", ["umbrella"]))
    ]
    channel = SlackChannel(Slack(SecretStr(""), SecretStr(""), tuple(teams)), "", lambda: DIRECTORY)
    expected = {"sister": ("acme", "sister"), "umbrella": ("umbrella",), "nobody": ("nobody",)}
    assert expected == {tenant: sharing(channel, tenant) for tenant in expected}


@pytest.mark.parametrize("kind", ["page", "away", "lost"])
async def test_an_outage_is_tried_again(scene: Scene, kind: Any) -> None:
    """An error page, no connection, a lost answer: none of them is for good."""
    reference = await scene.send(a_card())
    scene.slack.fail("chat.update", Fault(kind))
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card(revision=2), reference)
    assert failed.value.permanent is False
    await scene.send(a_card(revision=2), reference)
    assert "revision 2" in scene.card.words


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "missing_scope"])
async def test_what_no_try_can_mend_is_given_up(scene: Scene, error: str) -> None:
    """The rule's next channel gets its turn at once; the token stands in no error."""
    scene.slack.fail("chat.postMessage", Fault("error", error))
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card())
    assert (True, True, False) == (failed.value.permanent, error in str(failed.value), BOT_TOKEN in str(failed.value))


@pytest.mark.parametrize("error", ["account_inactive", "invalid_auth", "token_expired", "token_revoked"])
async def test_a_token_that_slack_refuses_gives_nothing_up(scene: Scene, error: str) -> None:
    """It may have been changed there, and the restart with the new one is still to come."""
    scene.slack.fail("chat.postMessage", Fault("error", error))
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card())
    assert (False, True, False) == (failed.value.permanent, error in str(failed.value), BOT_TOKEN in str(failed.value))


async def test_unknown_places_are_given_up(scene: Scene) -> None:
    """A channel that is not there, a tenant without a workspace."""
    for card, address in (
        (a_card(), Address("slack:#nowhere", "#nowhere")),
        (a_card(tenant="umbrella"), OPS),
    ):
        with pytest.raises(ChannelFailed) as failed:
            await scene.send(card, address=address)
        assert failed.value.permanent is True


async def test_a_channel_that_was_made_anew_is_found_again(scene: Scene) -> None:
    """Where a name leads is asked once more after a refusal: of many cards one is given up, not all until a restart."""
    await scene.send(a_card(approval_id="approval-1"))
    del scene.slack.channels["C0OPS0000"]
    scene.slack.channels["C0OPSANEW"] = "ops"
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card(approval_id="approval-2"))
    await scene.send(a_card(approval_id="approval-3"))
    assert (True, ["C0OPS0000", "C0OPSANEW"]) == (
        failed.value.permanent,
        [card.channel for card in scene.slack.cards()],
    )


async def test_a_card_that_was_found_is_known_although_its_update_failed(scene: Scene) -> None:
    """What is there is kept for the approval's end: nobody has to find it twice."""
    scene.slack.fail("chat.postMessage", Fault("lost"))
    scene.slack.fail("chat.update", Fault("error", "is_archived"))
    with pytest.raises(ChannelFailed):
        await scene.send(a_card())
    with pytest.raises(ChannelFailed) as failed:
        await scene.send(a_card(), IN_DOUBT)
    assert (True, {**IN_DOUBT, "channel": scene.card.channel, "ts": scene.card.ts}) == (
        failed.value.permanent,
        failed.value.reference,
    )


async def test_blocks_that_slack_refuses_are_shown_short(scene: Scene) -> None:
    """A card that is too long still appears, and cannot be approved unseen."""
    for error in ("msg_blocks_too_long", "invalid_blocks"):
        scene.slack.fail("chat.postMessage", Fault("error", error))
        await scene.send(a_card(approval_id=f"approval-{error}"))
    assert [{"placet_open", "placet_more"}] * 2 == [set(card.buttons) for card in scene.slack.cards()]


async def test_a_deleted_card_comes_back_while_it_waits(scene: Scene) -> None:
    """Somebody deleted it: whoever must decide gets a new one, and one that is over does not come back."""
    reference = await scene.send(a_card())
    scene.card.deleted = True
    reference = await scene.send(a_card(revision=2), reference)
    assert "revision 2" in scene.card.words
    scene.card.deleted = True
    await scene.send(a_card(revision=3, state="approved"), reference)
    assert [] == scene.slack.cards()


async def test_the_largest_card_is_taken(scene: Scene) -> None:
    """Sixty long arguments fit: the card shows what it can and says how many it does not."""
    arguments = [Argument(f"argument-{number}", "x" * 1000) for number in range(60)]
    await scene.send(a_card(arguments=arguments, quote="y" * 600))
    assert ("more arguments" in scene.card.words, 1) == (True, scene.methods().count("chat.postMessage"))


def commented(*words: str, **changes: Any) -> Card:
    """Return a card with comments of ben."""
    said = [CommentShown(f"comment-{number}", "person:ben", each) for number, each in enumerate(words)]
    return a_card(comments=said, happened="commented", **changes)


def thread_of(scene: Scene) -> list[str]:
    """Return what stands in the card's thread."""
    return [each.versions[0]["text"] for each in scene.slack.thread_of(scene.card)]


async def test_comments_stand_in_the_card_s_thread_once(scene: Scene) -> None:
    """Each is said when it comes, in its order, and no other time; whom it names is called, and nobody else."""
    reference = await scene.send(a_card())
    reference = await scene.send(commented("Why, @ada?"), reference, key="a")
    await scene.send(commented("Why, @ada?"), reference, key="a")
    reference = await scene.send(commented("Why, @ada?", "<!channel> <@U0EVE>"), reference, key="b")
    await scene.send(commented("Why, @ada?", "<!channel> <@U0EVE>", state="denied"), reference, key="c")
    assert ["ben commented: Why, <@U0ADA>?", "ben commented: &lt;!channel&gt; &lt;@U0EVE&gt;"] == thread_of(scene)[:2]
    words = [each.words for each in scene.slack.thread_of(scene.card)]
    assert [1, 0] == [each.count('"user_id": "U0ADA"') for each in words[:2]]
    assert 2 == sum("commented" in each for each in words)


async def test_comments_that_came_before_the_card_follow_it(scene: Scene) -> None:
    """A card that is posted late, or anew because somebody deleted it, has all that it knows in its thread."""
    await scene.send(commented("first", "second"))
    assert ["ben commented: first", "ben commented: second"] == thread_of(scene)


async def test_a_comment_whose_answer_was_lost_is_not_said_again(scene: Scene) -> None:
    """The next try looks into the thread; one that was said before another failed is not said again either."""
    reference = await scene.send(a_card())
    scene.slack.fail("chat.postMessage", Fault("lost"))
    with pytest.raises(ChannelFailed):
        await scene.send(commented("first"), reference, key="a")
    await scene.send(commented("first"), reference | IN_DOUBT, key="a")
    assert ["ben commented: first"] == thread_of(scene)


async def test_what_was_said_before_another_comment_failed_is_said_once(scene: Scene) -> None:
    """Slack limits the second of two: the next try goes on behind the first."""
    reference = await scene.send(a_card())

    async def limited_after_the_first() -> None:
        await scene.slack.until(lambda: scene.slack.thread_of(scene.card))
        scene.slack.fail("chat.postMessage", Fault("ratelimited"))

    limiting = asyncio.create_task(limited_after_the_first())
    with suppress(ChannelFailed):
        await scene.send(commented("first", "second"), reference, key="a")
    await limiting
    scene.slack.faults.clear()
    await scene.send(commented("first", "second"), reference | IN_DOUBT, key="a")
    assert ["ben commented: first", "ben commented: second"] == thread_of(scene)


async def test_a_card_calls_whom_it_asks(scene: Scene) -> None:
    """Those whom this workspace knows, by their ids there; who is of another one is not called."""
    await scene.send(a_card(asks=["person:ada", "person:zoe"]))
    assert (1, 0) == (scene.card.words.count('"user_id": "U0ADA"'), scene.card.words.count("U9"))


async def test_a_deleted_card_of_a_closed_approval_gets_no_comments(scene: Scene) -> None:
    """Nobody would find them."""
    reference = await scene.send(a_card())
    (card,) = scene.slack.cards()
    card.deleted = True
    await scene.send(commented("too late", state="denied"), reference)
    assert [] == scene.slack.thread_of(card)
