"""Run the gateway: `python -m placet.gateway`."""

from __future__ import annotations

import placet.runtime.service
from placet.gateway.service import build
from placet.gateway.settings import GatewaySettings

if __name__ == "__main__":
    placet.runtime.service.main("gateway", GatewaySettings, build)
