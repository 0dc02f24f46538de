"""Run policy: `python -m placet.policy`. An invalid rulebook is printed line by line and ends it with code 2."""

from __future__ import annotations

import placet.runtime.service
from placet.policy.service import build
from placet.policy.settings import PolicySettings

if __name__ == "__main__":
    placet.runtime.service.main("policy", PolicySettings, build)
