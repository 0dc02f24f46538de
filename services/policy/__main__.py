"""Run policy: `python -m placet.policy`. An invalid rulebook is printed line by line and ends it with code 2."""

from __future__ import annotations

from placet.policy.service import build
from placet.policy.settings import PolicySettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("policy", PolicySettings, build)
