"""Where a webhook may lead: a name is looked up once, judged, and that address is the one that is connected to.

Whoever writes a webhook's address, or owns its name in the DNS, must not reach through us what they cannot reach
themselves: this machine, the network around it, a cloud's metadata service.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from placet.notifier.channels import ChannelFailed
from placet.notifier.look_ups import LookUps
from placet.runtime.threads import call_in_thread

IPAddress: TypeAlias = IPv4Address | IPv6Address
#: Returns the addresses of a host, best first; raises OSError where there are none.
LookUp: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

#: Addresses within IPv6 that are IPv4 ones in disguise, beside those that Python itself knows: NAT64.
_NAT64 = IPv6Network("64:ff9b::/96")


def resolve(host: str) -> list[str]:
    """Return the addresses of a host as this machine's resolver knows them, however long that takes."""
    return [str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Names:
    """Looks up names, each in a thread of its own: one whose name servers are silent keeps no other.

    The event loop would ask in a few threads for all, and such a name keeps each for many seconds. Who asks for a name
    that is asked for already waits for the same answer, so however many ask, there are no more threads than names.
    """

    def __init__(self, resolve: Callable[[str], list[str]] = resolve) -> None:
        self._resolve = resolve
        self._look_ups = LookUps[list[str]]()

    async def look_up(self, host: str, _port: int) -> list[str]:
        """Return the addresses of a host."""
        resolve = partial(self._resolve, host)
        return await self._look_ups.find(host, lambda: call_in_thread(resolve, name=f"look up {host}"))


async def address_of(host: str, port: int, look_up: LookUp, *, private: bool) -> str:
    """Return the address to connect to; raise ChannelFailed where there is none, or one that must not be reached.

    One bad address among good ones spoils all: a name that answers with both is no honest one.
    """
    try:
        found = await look_up(host, port)
    except OSError as error:
        raise ChannelFailed(f"{host} has no address: {error.strerror or error}") from error
    if not found:
        raise ChannelFailed(f"{host} has no address")
    for address in found:
        if not is_allowed(address, private=private):
            opens = is_allowed(address, private=True)
            told = "is not public; say `private: true` if that is meant" if opens else "no webhook may reach"
            raise ChannelFailed(f"{host} leads to {address}, which {told}", permanent=True)
    return found[0]


def is_allowed(address: str, *, private: bool) -> bool:
    """Tell whether an address may be connected to. What is no host at all never is."""
    ip = _plain(ip_address(address.partition("%")[0]))
    if ip.is_multicast or ip.is_unspecified or (ip.is_reserved and not ip.is_loopback):
        return False
    # Link-local addresses hold clouds' metadata services, so these stay shut also where private ones are meant. Python
    # takes site-local ones, which are no more in use, for public.
    is_public = ip.is_global and not (isinstance(ip, IPv6Address) and ip.is_site_local)
    return is_public or (private and not ip.is_link_local)


def _plain(ip: IPAddress) -> IPAddress:
    """Return the IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or ip
