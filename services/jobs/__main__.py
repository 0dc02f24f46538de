"""Run the jobs service: `python -m placet.jobs`."""

from __future__ import annotations

import placet.runtime.service
from placet.jobs.service import build
from placet.jobs.settings import JobsSettings

if __name__ == "__main__":
    placet.runtime.service.main("jobs", JobsSettings, build)
