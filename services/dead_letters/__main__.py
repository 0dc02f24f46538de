"""Run the dead-letter service: `python -m placet.dead_letters`."""

from __future__ import annotations

import placet.runtime.service
from placet.dead_letters.service import build
from placet.dead_letters.settings import DeadLettersSettings

if __name__ == "__main__":
    placet.runtime.service.main("dead_letters", DeadLettersSettings, build)
