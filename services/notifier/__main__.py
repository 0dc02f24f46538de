"""Run the notifier: `python -m placet.notifier`."""

from __future__ import annotations

import placet.runtime.service
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings

if __name__ == "__main__":
    placet.runtime.service.main("notifier", NotifierSettings, build)
