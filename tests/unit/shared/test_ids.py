"""Ids that clients choose."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.contracts.ids import ID_MAX, is_of_job, is_shortened, job_conversation_id, own_id, own_prefix

tenants = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True).filter(lambda name: not is_shortened(name))
chosen_ids = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@given(tenants, tenants, chosen_ids, chosen_ids)
def test_two_tenants_never_mean_the_same_thing(one: str, other: str, first: str, second: str) -> None:
    """Whatever their clients choose, also each other's whole ids."""
    mine = own_id(one, first)
    assert one == other or mine not in {own_id(other, second), own_id(other, mine)}


@given(tenants, chosen_ids)
def test_a_whole_id_stays_as_it_is(tenant: str, chosen: str) -> None:
    """It can be given wherever the chosen one can, fits everywhere, and says whose it is."""
    whole = own_id(tenant, chosen)
    assert (whole, True) == (own_id(tenant, whole), whole.startswith(own_prefix(tenant)))
    assert len(whole) <= ID_MAX


@pytest.mark.parametrize(
    ("tenant", "chosen", "whole"),
    [("acme", "chat-1", "acme_chat-1"), ("acme", "acme_chat-1", "acme_chat-1"), ("a", "a" * 62, "a_" + "a" * 62)],
)
def test_an_id_can_be_read(tenant: str, chosen: str, whole: str) -> None:
    """People see the tenant and what its client chose."""
    assert whole == own_id(tenant, chosen)


@given(tenants, chosen_ids)
def test_the_conversation_of_a_job_has_an_id_of_its_own_form(tenant: str, job_id: str) -> None:
    """It fits, it is known by its form, and no prefix changes it."""
    given_id = job_conversation_id(tenant, "attempt-conversation", job_id)
    assert (True, given_id) == (is_of_job(tenant, given_id), own_id(tenant, given_id))
    assert len(given_id) <= ID_MAX


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{27,62}", fullmatch=True))
@example("acme-subsidiary-of-the-north-gmbh")
def test_what_a_long_name_is_shortened_to_is_no_tenants_name(tenant: str) -> None:
    """Whoever may choose a name cannot choose the one that another's ids begin with."""
    assert is_shortened(own_prefix(tenant).removesuffix("_"))


@pytest.mark.parametrize("tenant", ["acme", "acme-subsidiary-of-the-north-gmbh", "acme-subsidiar-053f52176cag"])
def test_an_ordinary_name_is_nobodys_shortened_one(tenant: str) -> None:
    """Short or long, also where it is as long as a shortened one."""
    assert not is_shortened(tenant)
