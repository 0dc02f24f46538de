"""Run the gateway: `python -m services.gateway`."""

from __future__ import annotations

from services.gateway.service import build
from services.gateway.settings import GatewaySettings
from shared.service import main

if __name__ == "__main__":
    main("gateway", GatewaySettings, build)
