"""Run the gateway: `python -m placet.gateway`."""

from __future__ import annotations

from placet.gateway.service import build
from placet.gateway.settings import GatewaySettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("gateway", GatewaySettings, build)
