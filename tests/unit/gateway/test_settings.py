"""Settings of the gateway that would be taken for something else."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from placet.gateway.settings import GatewaySettings


@pytest.mark.parametrize("proxy", ["*", "nginx", "10.0.0.1/8", "10.0.0.0/33", ""])
def test_a_proxy_is_an_address_or_a_network(proxy: str) -> None:
    """Anything else is refused at the start: it would trust everybody, or nobody and without a word."""
    with pytest.raises(ValidationError, match="is no address and no network of proxies"):
        GatewaySettings(gateway_trusted_proxies=["::1", proxy])


def test_addresses_and_networks_are_taken() -> None:
    """Of both kinds of IP."""
    proxies = ["127.0.0.1", "10.0.0.0/8", "fd00::/8"]
    assert proxies == GatewaySettings(gateway_trusted_proxies=proxies).gateway_trusted_proxies
